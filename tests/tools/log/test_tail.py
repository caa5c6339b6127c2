"""Following a session."""

from __future__ import annotations

import argparse
import asyncio

import pytest

from duplex_es.log.memory import MemoryLog
from duplex_es.tools import show
from duplex_es.tools.log import tail
from tests.support.long_call import Clock
from tests.support.recorded_call import SCRIPT, RecordedCall, record_call

pytestmark = pytest.mark.unit


async def test_a_session_is_shown_to_its_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = MemoryLog()
    monkeypatch.setattr(show, "open_log", lambda url, settings: log)
    await record_call(log)
    args = argparse.Namespace(session="call-1", redis_url="memory://", from_start=True, json=False)
    assert await asyncio.wait_for(tail.run(args), 30) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "the session has ended: session_close"
    assert sum(" < " in line for line in lines) == 174 and sum(" > " in line for line in lines) == 32


async def test_only_what_comes_is_shown_unless_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = MemoryLog()
    monkeypatch.setattr(show, "open_log", lambda url, settings: log)
    call = await RecordedCall.begin(log, "live", SCRIPT)
    assert isinstance(call.clock, Clock)
    args = argparse.Namespace(session="live", redis_url="memory://", from_start=False, json=True)
    tailing = asyncio.create_task(tail.run(args))
    await asyncio.sleep(0)
    shown = ""
    async with asyncio.timeout(30):
        while "input_audio_buffer.append" not in shown:
            await call.caller.append(b"\0\0" * 1_600)
            await asyncio.sleep(0.001)
            shown += capsys.readouterr().out
    assert "duplex_es.open_session" not in shown
    tailing.cancel()
    await asyncio.gather(tailing, return_exceptions=True)
    await call.end()
