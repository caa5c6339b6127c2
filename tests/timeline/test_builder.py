"""The document of a recorded call: everything that happened, each thing with its place in the log."""

from __future__ import annotations

import pytest

from duplex_es.log.api import EntryId
from duplex_es.log.memory import MemoryLog
from duplex_es.reading.calls import Piece, read_call
from duplex_es.reading.dxlog import FileSource
from duplex_es.reading.source import LiveSource
from duplex_es.timeline.builder import TimelineBuilder, caller_sound, position_of, rate_of, runs_of
from duplex_es.timeline.document import Timeline, encoded
from tests.support.call_files import RECORDING
from tests.support.recorded_call import record_call

pytestmark = pytest.mark.unit


async def recorded() -> Timeline:
    builder = TimelineBuilder()
    with FileSource(RECORDING) as source:
        await builder.read(source, source.head)
        return builder.document(source.head)


def piece(number: int, begin_ms: float, duration_ms: float, keep_ms: float | None = None) -> Piece:
    kept = duration_ms if keep_ms is None else keep_ms
    return Piece(EntryId(1, number), begin_ms, duration_ms, "pcm16", 24_000, None, 0, kept)


async def test_a_recorded_call_is_laid_out_on_its_lanes() -> None:
    found = await recorded()
    assert (found.session, found.state, found.closed, found.length_ms) == ("call-1", "closed", "session_close", 9_100)
    assert [(one.begin, one.end) for one in found.caller] == [(0, 2_000), (3_500, 4_500), (6_400, 7_400)]
    assert (found.caller[0].first, found.caller[0].last) == (">1-2", ">1-11")
    assert [(one.text, one.status, one.heard_ms) for one in found.replies] == [
        ("Sunny all day.", "completed", 1_200),
        ("Once upon a time there was a very long story.", "cancelled", 1_500),
        ("Sunny all day.", "completed", 1_200),
    ]
    assert found.snapshots == [37, 136]
    assert found.sound == {"caller": 16_000, "assistant": 24_000}


async def test_an_interrupted_answer_is_heard_up_to_where_the_client_stopped_it() -> None:
    cut = (await recorded()).replies[1]
    heard, unheard = cut.runs
    assert (heard.offset, heard.length, heard.heard) == (0, 1_500, 4_500)
    assert (unheard.offset, unheard.length, unheard.heard) == (1_500, 4_500, None)
    assert cut.words[:3] == [(0, "Once "), (480, "upon "), (1_120, "a ")]
    assert (cut.ref, cut.end_ref) == ("<1-46", "<1-134")


async def test_read_in_steps_while_it_goes_on_it_is_the_same_as_read_at_once() -> None:
    log = MemoryLog()
    await record_call(log)
    source = LiveSource(log, "memory://")
    head = await source.find("call-1")
    at_once, in_steps = TimelineBuilder(), TimelineBuilder()
    await at_once.read(source, head)
    outputs = [entry async for entry in source.output(head)]
    inputs = [entry async for entry in source.input(head)]
    for step in range(0, len(outputs), 20):
        for entry in outputs[step : step + 20]:
            in_steps.take_output(entry)
        for entry in inputs[step // 5 : step // 5 + 4]:
            in_steps.take_input(entry)
        in_steps.document(head)
    await in_steps.read(source, head)
    assert encoded(in_steps.document(head)) == encoded(at_once.document(head))


async def test_the_position_is_another_as_soon_as_anything_is_new() -> None:
    log = MemoryLog()
    await record_call(log)
    head = await LiveSource(log, "memory://").find("call-1")
    assert position_of(head) == position_of(head)
    assert (await recorded()).position == "2-174.2-8.closed.2-2"


async def test_from_a_store_without_its_sound_the_caller_lies_where_the_sound_says() -> None:
    log = MemoryLog()
    await record_call(log)
    source = LiveSource(log, "memory://")
    head = await source.find("call-1")
    builder = TimelineBuilder()
    await builder.read(source, head)
    exact = await read_call(source, head)
    told = [(one.begin, one.end) for one in builder.document(head).caller]
    assert told == [(one.begin, one.end) for one in caller_sound(exact.heard)]


def test_pieces_without_a_gap_are_one_run_and_a_gap_begins_another() -> None:
    places = [(piece(1, 100, 80), 100.0), (piece(2, 180, 80), 180.0), (piece(3, 400, 80, 20), 400.0)]
    assert [tuple(msg) for msg in map(_plain, runs_of(places))] == [
        (0, 160, 100, 100),
        (160, 20, 400, 400),
        (180, 60, None, 420),
    ]
    assert list(runs_of([])) == []
    assert [(one.begin, one.end, one.count) for one in caller_sound([one for one, _ in places])] == [
        (100, 260, 2),
        (400, 480, 1),
    ]
    assert (rate_of([]), rate_of([piece(1, 0, 1)])) == (16_000, 24_000)


def _plain(run: object) -> list[object]:
    return [getattr(run, name) for name in ("offset", "length", "heard", "generated")]
