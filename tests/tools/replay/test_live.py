"""Recorded callers on the line again, against a service that really runs."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from duplex_es.client import DuplexClient
from duplex_es.tools import cli
from tests.support.processes import start_store
from tests.support.services import Deployment

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

CORPUS = Path(__file__).resolve().parents[2] / "corpus"


@pytest.fixture(scope="module")
def service() -> Iterator[Deployment]:
    """Two gateways, and a worker for each of the models that need no weights; in their store is no other."""
    with contextlib.ExitStack() as stack:
        store = start_store("valkey")
        stack.callback(store.stop)
        main = stack.enter_context(Deployment(store.url, gateways=2, model="scripted", options=("--slots", "16")))
        stack.enter_context(Deployment(store.url, gateways=0, model="echo", options=("--slots", "16")))
        yield main


def told(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    """What a command says as JSON; it must end well."""
    assert cli.main([*words, "--json"]) == 0, capsys.readouterr().err
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize("name", ["silence", "tool_call", "truncation", "failure", "other_sound"])
@pytest.mark.parametrize("pace", [["--speed", "0"], ["--step"]], ids=["frames", "steps"])
def test_a_session_and_its_replay_are_alike(
    service: Deployment, name: str, pace: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recording, new = CORPUS / f"{name}.dxlog", tmp_path / "new.dxlog"
    where = ["--file", str(recording), "--to", service.urls[0], "--into", service.redis_url, "-o", str(new)]
    found = told(capsys, "log", "replay", *where, *pace)
    assert found["session"].startswith("duplex-") and not found["late"]
    assert cli.main(["log", "verify", "--file", str(new)]) == 0
    capsys.readouterr()
    if name == "other_sound" or name == "failure":
        return  # Where an answer is cut, or fails, is a matter of milliseconds.
    assert cli.main(["log", "diff", str(recording), str(new)]) == 0, capsys.readouterr().out
    assert capsys.readouterr().out == ""


def test_a_call_is_said_again_at_its_own_pace_and_comes_back_on_another_socket(
    service: Deployment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recording, new = CORPUS / "resume.dxlog", tmp_path / "new.dxlog"
    where = ["--file", str(recording), "--to", service.urls[1], "--into", service.redis_url, "-o", str(new)]
    found = told(capsys, "log", "replay", *where, "--id", "said-again")
    assert (found["session"], found["answers"], found["ended"]) == ("said-again#0", 2, "session_close")
    stats = told(capsys, "log", "stats", "--file", str(new))
    assert (stats["attaches"], stats["answers"]) == (2, {"completed": 2})


def test_a_call_is_said_again_from_the_middle(
    service: Deployment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recording, new = CORPUS / "tool_call.dxlog", tmp_path / "new.dxlog"
    where = ["--file", str(recording), "--to", service.urls[0], "--into", service.redis_url, "-o", str(new)]
    found = told(capsys, "log", "replay", *where, "--from-seq", "18", "--speed", "0")
    assert found["ended"] == "session_close"
    assert cli.main(["log", "show", "--file", str(new)]) == 0
    shown = capsys.readouterr().out
    assert "duplex_es.forked" in shown and "It rains in Paris." in shown


@pytest.mark.parametrize(
    ("name", "seq"), [("takeover", 30), ("text_turn", 45), ("barge_in", 12), ("long_call", 700), ("backchannel", 3)]
)
def test_a_client_resumes_a_fork_and_the_call_goes_on(
    service: Deployment, name: str, seq: int, capsys: pytest.CaptureFixture[str]
) -> None:
    recording = CORPUS / f"{name}.dxlog"
    words = ["log", "fork", "--file", str(recording), "--at", str(seq), "--into", service.redis_url]
    found = told(capsys, *words)
    assert found["forked_from"] == {"session": f"{name}#0", "seq": seq}
    assert asyncio.run(goes_on(service.urls[1], found["ticket"])) == found["session"].removesuffix("#0")
    where = [found["session"], "--redis-url", service.redis_url]
    assert cli.main(["log", "verify", *where]) == 0
    capsys.readouterr()
    checked = cli.main(["log", "replay", "--check", *where])
    assert checked == 0 or "has expired" in capsys.readouterr().err


async def goes_on(url: str, ticket: str) -> str | None:
    """Take the session up, say something, hear it acknowledged, and close it; its id."""
    async with DuplexClient.resume(url, ticket) as client:
        part = {"type": "input_text", "text": "good bye"}
        item = {"type": "message", "role": "user", "content": [part]}
        await client.send({"type": "conversation.item.create", "item": item})
        async with asyncio.timeout(30):
            async for event in client.events():
                if event.type == "conversation.item.created" and "good bye" in json.dumps(event.raw):
                    return client.session_id
    return None


def test_a_service_that_is_not_there_and_a_refusal_are_told(
    service: Deployment, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["log", "replay", "--file", str(CORPUS / "silence.dxlog"), "--speed", "0", "--to"]
    assert cli.main([*where, "ws://127.0.0.1:9/v1/realtime"]) == 1
    assert "does not answer" in capsys.readouterr().err
    assert cli.main([*where, service.urls[0], "--id", "taken"]) == 0
    capsys.readouterr()
    assert cli.main(["log", "replay", "--file", str(CORPUS / "chat_lane.dxlog"), "--to", service.urls[0]]) == 1
    assert "did not open the session" in capsys.readouterr().err
