"""Showing a session's log."""

from __future__ import annotations

import argparse

import pytest

from duplex_es.log.api import EntryId
from duplex_es.log.errors import LogUnavailable
from duplex_es.log.memory import MemoryLog
from duplex_es.reading.records import InputLine, line_map
from duplex_es.tools import show
from duplex_es.tools.errors import ToolError
from duplex_es.tools.log import show as log_show
from tests.support.recorded import record_session

pytestmark = pytest.mark.unit


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> MemoryLog:
    memory = MemoryLog()
    monkeypatch.setattr(show, "open_log", lambda url, settings: memory)
    return memory


def arguments(session: str = "sess_1", *, all: bool = False) -> argparse.Namespace:
    return argparse.Namespace(session=session, redis_url="memory://", file=None, all=all, at=None, json=False)


async def test_a_session_is_shown_with_where_it_stands_and_both_streams(
    log: MemoryLog, capsys: pytest.CaptureFixture[str]
) -> None:
    await record_session(log)
    assert await log_show.run(arguments()) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "sess_1 #0: claimed, cascade, socket 1 on gw-1, claim 1 of worker-1"
    assert [line.split()[1:4] for line in lines[1:]] == [
        [">", "1-0", "duplex_es.open_session"],
        [">", "1-1", "input_audio_buffer.append"],
        ["<", "1-1", "response.listen"],
    ]
    assert "[Listened]" in lines[-1]


async def test_an_unclaimed_session_says_so(log: MemoryLog, capsys: pytest.CaptureFixture[str]) -> None:
    await record_session(log, claims=False)
    assert await log_show.run(arguments(all=True)) == 0
    assert "waiting, cascade, socket 1 on gw-1, no worker yet" in capsys.readouterr().out


@pytest.mark.usefixtures("log")
async def test_an_unknown_session_is_trouble_in_words() -> None:
    with pytest.raises(ToolError, match="no session 'nobody' in this store"):
        await log_show.run(arguments("nobody"))


async def test_a_store_that_does_not_answer_is_trouble_in_words(
    log: MemoryLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse() -> None:
        raise LogUnavailable("connection refused")

    monkeypatch.setattr(log, "connect", refuse)
    with pytest.raises(ToolError, match="the store at memory:// does not answer: connection refused"):
        await log_show.run(arguments())


def test_sound_is_counted_not_shown() -> None:
    line = InputLine(EntryId(1, 2), 5, {"type": "input_audio_buffer.append", "audio": b""}, 64)
    shown = line_map(line)
    assert shown["said"] == {"type": "input_audio_buffer.append"} and shown["audio_bytes"] == 64
