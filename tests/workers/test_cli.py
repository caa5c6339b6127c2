"""The worker as a process: starts, says that it is ready, serves, stops cleanly; or says why it cannot."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from duplex_es.log.api import SessionLog
from duplex_es.log.opening import open_log
from duplex_es.protocol import CloseSession
from tests.support.calls import Caller, check_log, pcm16, until
from tests.support.processes import StoreProcess, free_port
from workers.cli import main

pytestmark = pytest.mark.redis

ROOT = Path(__file__).resolve().parents[2]


class Worker:
    """A worker process and what it says."""

    def __init__(self, log: Path, *arguments: str) -> None:
        self.port = free_port()
        self._log = log
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "workers.cli", "--health-port", str(self.port), *arguments],
                cwd=ROOT,
                env={name: value for name, value in os.environ.items() if not name.startswith("DUPLEX_ES_")},
                stderr=output,
                stdout=output,
            )

    @property
    def said(self) -> str:
        """All its log lines so far."""
        return self._log.read_text()

    def readiness(self) -> tuple[int, dict[str, object]]:
        """What ``/readyz`` answers; 0 when nobody does."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=5) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as refusal:
            return refusal.code, json.load(refusal)
        except OSError:
            return 0, {}

    async def is_ready(self) -> None:
        """Wait until it takes sessions. Raises: AssertionError with its log lines when it ended instead."""
        await until(lambda: self.readiness()[0] == 200 or self.process.poll() is not None, patience_s=60)
        assert self.process.poll() is None, self.said

    async def stops(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Ask it to end; returns its exit status."""
        self.process.send_signal(number)
        return await asyncio.to_thread(self.process.wait, 60)


Start = Callable[..., Worker]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts workers that do not outlive the test."""
    workers: list[Worker] = []

    def starting(*arguments: str) -> Worker:
        workers.append(Worker(tmp_path / f"worker-{len(workers)}.log", *arguments))
        return workers[-1]

    yield starting
    for worker in workers:
        if worker.process.poll() is None:
            worker.process.kill()
        worker.process.wait()


@pytest.fixture
async def log(valkey: StoreProcess) -> AsyncIterator[SessionLog]:
    log = open_log(valkey.url)
    await log.connect()
    yield log
    await log.close_connections()


async def test_a_worker_holds_a_whole_call_and_ends_with_0_on_sigterm(
    valkey: StoreProcess, log: SessionLog, start: Start
) -> None:
    options = ("--model", "echo", "--model-option", "lead_ms=none", "--name", "cli-1", "--slots", "2")
    worker = start("--redis-url", valkey.url, *options)
    await worker.is_ready()
    assert worker.readiness()[1]["ready"] is True
    assert [(card.worker, card.slots) for card in await log.fleet() if card.worker == "cli-1"] == [("cli-1", 2)]
    caller = await Caller.open(log, "echo", "cli-call")
    assert (await caller.answer()).session["model"] == "echo"
    await caller.append(*[pcm16(100)] * 4, *[pcm16(100, level=0)] * 8)
    await caller.hears("response.done")
    assert worker.readiness()[0] == 200
    await caller.say(CloseSession())
    await caller.ends("session_close")
    await check_log(log, caller.ref, ended=True)
    assert await worker.stops() == 0
    assert "session=cli-call incarnation=0 claim=1 claimed" in worker.said
    assert worker.said.rstrip().endswith("stopped")
    assert [card for card in await log.fleet() if card.worker == "cli-1"] == []


async def test_a_session_moves_from_a_stopping_worker_to_the_next(
    valkey: StoreProcess, log: SessionLog, start: Start
) -> None:
    options = ("--redis-url", valkey.url, "--model", "scripted", "--model-option", "lead_ms=none")
    first = start(*options, "--name", "cli-2")
    await first.is_ready()
    caller = await Caller.open(log, "scripted", "cli-moved")
    await caller.answer()
    assert await first.stops(signal.SIGINT) == 0
    second = start(*options, "--name", "cli-3")
    await second.is_ready()
    await caller.say(CloseSession())
    await caller.ends("session_close")
    assert (await log.head("cli-moved")).fence == 2
    await check_log(log, caller.ref, ended=True)
    assert await second.stops() == 0


async def test_a_worker_whose_store_is_away_waits_for_it_and_says_so(own_valkey: StoreProcess, start: Start) -> None:
    own_valkey.kill()
    worker = start("--redis-url", own_valkey.url, "--model", "echo", "--log-format", "json")
    await until(lambda: worker.readiness()[0] == 503, patience_s=60)
    await until(lambda: "log" in str(worker.readiness()[1].get("reason")), patience_s=60)
    own_valkey.start()
    await worker.is_ready()
    assert await worker.stops() == 0
    lines = [json.loads(line) for line in worker.said.splitlines()]
    assert all({"time", "level", "logger", "event", "message", "worker"} <= line.keys() for line in lines)
    assert [line["message"] for line in lines][-1] == "stopped"


@pytest.mark.parametrize(
    ("arguments", "status", "complaint"),
    [
        (["--model", "ecko"], 1, "There is no model 'ecko'; installed are: "),
        (["--model", "echo", "--model-option", "loudness=11"], 1, "unknown option 'loudness'"),
        (["--model", "echo", "--model-option", "loudness"], 1, "KEY=VALUE"),
        (["--model", "echo", "--redis-url", "http://nowhere"], 1, "redis://"),
        (["--slots", "none"], 2, "--slots"),
    ],
)
async def test_a_worker_that_cannot_start_says_why(
    start: Start, arguments: list[str], status: int, complaint: str
) -> None:
    worker = start(*arguments)
    assert await asyncio.to_thread(worker.process.wait, 60) == status
    assert complaint in worker.said
    assert "Traceback" not in worker.said


async def test_the_refusal_of_an_unknown_model_names_those_there_are(start: Start) -> None:
    worker = start("--model", "ecko")
    assert await asyncio.to_thread(worker.process.wait, 60) == 1
    assert re.search(r"installed are: .*cascade.*echo.*scripted", worker.said)


def test_a_model_that_fails_to_load_is_named_with_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def load(self: object) -> None:
        raise RuntimeError("weights.bin is missing")

    monkeypatch.setattr("workers.models.echo.model.EchoModel.load", load)
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    assert main(["--model", "echo", "--redis-url", "memory://"]) == 1
    assert "cannot start: model echo: weights.bin is missing" in capsys.readouterr().err
