"""The program itself, as a process, on a real store."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from duplex_es.log.api import SessionLog
from duplex_es.log.opening import open_log
from gateway.cli import main
from tests.gateway.stage import Client, FakeWorker, joined
from tests.support.processes import StoreProcess, free_port

pytestmark = pytest.mark.redis

ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def program(url: str, directory: Path, **flags: object) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """``duplex-es-gateway`` on ``url``: its port and process, killed at the end if it still runs."""
    port = free_port()
    arguments = ["--port", str(port), "--redis-url", url, "--drain-s", "0.3"]
    for name, value in flags.items():
        arguments += [f"--{name.replace('_', '-')}", str(value)]
    with (directory / f"gateway-{port}.log").open("wb") as output:
        process = subprocess.Popen([sys.executable, "-m", "gateway.cli", *arguments], cwd=ROOT, stderr=output)
    try:
        yield port, process
    finally:
        process.kill()
        process.wait()


async def readiness(port: int, status: int) -> dict[str, Any]:
    """The body of ``/readyz`` once it answers ``status``."""

    def fetch() -> tuple[int, dict[str, Any]]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)
        except OSError:
            return 0, {}

    async with asyncio.timeout(30):
        while True:
            found, body = await asyncio.to_thread(fetch)
            if found == status:
                return body
            await asyncio.sleep(0.05)


async def exit_code(process: subprocess.Popen[bytes]) -> int:
    """What the process ends with."""
    return await asyncio.to_thread(process.wait, 60)


async def connected(url: str) -> SessionLog:
    """The log at ``url``."""
    log = open_log(url)
    await log.connect()
    return log


async def test_a_session_moves_from_one_process_to_another_and_both_stop_cleanly(
    valkey: StoreProcess, tmp_path: Path
) -> None:
    log = await connected(valkey.url)
    first_run = program(valkey.url, tmp_path, name="g1", log_format="json")
    second_run = program(valkey.url, tmp_path, name="g2")
    async with FakeWorker(log).working() as worker:
        with first_run as (port, first), second_run as (other_port, second):
            await readiness(port, 200)
            await readiness(other_port, 200)
            async with joined(f"ws://127.0.0.1:{port}/v1/realtime") as client:
                created = await client.open(session_id="moving")
                await client.say("input.text.append", text="say 10")
                heard = [await client.hear() for _ in range(10)]
                first.send_signal(signal.SIGTERM)
                await client.hear_type("session.going_away")
                assert await client.closed() == (1012, "gateway_stopping")
            assert await exit_code(first) == 0
            async with joined(f"ws://127.0.0.1:{other_port}/v1/realtime?autostart=0") as client:
                await client.resume(created, 4)
                await client.hear_type("session.resumed")
                replayed = [await client.hear() for _ in range(7)]
                assert replayed == heard[3:]
                await closed_by(client, worker)
            second.send_signal(signal.SIGTERM)
            assert await exit_code(second) == 0
    await log.close_connections()
    lines = (tmp_path / f"gateway-{port}.log").read_text().splitlines()
    messages = [json.loads(line)["message"] for line in lines]
    assert any("listens on ws://127.0.0.1" in message for message in messages)
    assert not any("Traceback" in line for line in lines)


async def closed_by(client: Client, worker: FakeWorker) -> None:
    """Close the session."""
    await client.say("session.close")
    assert (await client.hear_type("session.closed"))["server_event_seq"] == worker._seqs["moving"]
    assert await client.closed() == (1000, "")


async def test_it_waits_for_its_store_and_tells_clients_when_the_store_is_lost(
    own_valkey: StoreProcess, tmp_path: Path
) -> None:
    own_valkey.kill()
    with program(own_valkey.url, tmp_path, log_patience_s=1.0, renew_interval_s=0.2) as (port, process):
        assert (await readiness(port, 503))["reason"]
        own_valkey.start()
        await readiness(port, 200)
        log = await connected(own_valkey.url)
        worker = FakeWorker(log)
        async with worker.working(), joined(f"ws://127.0.0.1:{port}/v1/realtime") as client:
            await client.open(session_id="stranded")
            own_valkey.kill()
            async with asyncio.timeout(60):
                error = json.loads(await client.socket.recv())
                assert error["error"]["code"] == "log_unavailable"
                assert await client.closed() == (1013, "log_unavailable")
        assert (await readiness(port, 503))["reason"]
        process.send_signal(signal.SIGTERM)
        assert await exit_code(process) == 0
        await log.close_connections()


def test_a_log_that_cannot_be_named_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--redis-url", "carrier-pigeon://roof"]) == 2
    assert "--redis-url" in capsys.readouterr().err


def test_an_archive_that_cannot_be_opened_is_named_before_anything_listens(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("DUPLEX_ES_OPERATOR_TOKEN", "t" * 16)
    monkeypatch.setenv("DUPLEX_ES_ARCHIVE_KEY", "c2hvcnQ=")
    assert main(["--archive", str(tmp_path), "--archive-keys", str(tmp_path / "keys")]) == 2
    assert "duplex-es-gateway: --archive: an operator's key has 32 bytes" in capsys.readouterr().err
