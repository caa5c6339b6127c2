"""Where sessions stand."""

from __future__ import annotations

import pytest

from duplex_es.log.memory import MemoryLog
from duplex_es.reading.sessions import begun_ms, error_in, session_map
from duplex_es.reading.source import LiveSource
from tests.support.recorded import record_session
from tests.support.recorded_call import record_call

pytestmark = pytest.mark.unit


async def test_a_session_says_where_it_stands_when_it_began_and_what_failed() -> None:
    log = MemoryLog()
    await record_call(log)
    await record_session(log, "other")
    source = LiveSource(log, "memory://")
    closed, claimed = await source.sessions()
    assert session_map(closed)["state"] == "closed" and session_map(closed)["socket"] is None
    assert session_map(claimed)["worker"] == "worker-1/1"
    assert await begun_ms(source, claimed) == 1_000
    assert await error_in(source, closed) is None
