"""Following a call as it goes on."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest

from duplex_es.log.keeping import keeping_of
from duplex_es.log.memory import MemoryLog
from duplex_es.reading.source import LiveSource
from duplex_es.timeline.builder import position_of
from gateway.following import END, positions
from tests.support.long_call import SCRIPT
from tests.support.recorded_call import RecordedCall, record_call

pytestmark = pytest.mark.unit


async def test_each_move_is_an_event_until_the_gateway_stops() -> None:
    log = MemoryLog()
    call = await RecordedCall.begin(log, "live", SCRIPT % 400)
    source = LiveSource(log, "memory://")
    head = await source.find("live")
    stopping = [False]
    events = positions(source, head, position_of(head), lambda: stopping[0], look_s=0.001)
    waiting = asyncio.create_task(anext(events))
    await call.listen(1)
    moved = json.loads((await waiting).split("data: ")[1])
    assert moved["state"] == "claimed" and moved["position"] != position_of(head)
    stopping[0] = True
    assert not any(event.startswith("event: end") for event in [event async for event in events])
    await call.end()


async def test_of_a_session_that_is_over_the_end_is_told() -> None:
    log = MemoryLog()
    await record_call(log)
    source = LiveSource(log, "memory://")
    head = await source.find("call-1")
    events = [event async for event in positions(source, head, position_of(head), lambda: False)]
    assert events == ["event: end\ndata: {}\n\n"]


async def test_the_end_is_told_of_a_session_that_is_not_there_any_more() -> None:
    log = MemoryLog()
    await record_call(log)
    source = LiveSource(log, "memory://")
    head = replace(await source.find("call-1"), state="claimed")
    await keeping_of(log).erase(head.ref)
    events = positions(source, head, position_of(head), lambda: False, look_s=0.001)
    assert [event async for event in events] == [END]
