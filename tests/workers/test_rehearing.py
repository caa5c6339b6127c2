"""The sound of an unfinished turn, read back from the log sample by sample."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from duplex_es.log.api import START, Entry, EntryId
from duplex_es.log.memory import MemoryLog
from duplex_es.protocol import ClearInput, Heartbeat, UpdateSession
from duplex_es.session.state import Clock, Input, Session, Settings
from tests.support.calls import Caller
from workers.rehearing import Again, committed_sound, unsettled_sound
from workers.utterance import Committed, CommittedTurn, Place, Unsettled

pytestmark = pytest.mark.unit

RAMP = np.arange(16_000, dtype="<i2")


async def heard_again(
    caller: Caller, from_ms: int, until: EntryId, *, place: Place | None = None, session: Session | None = None
) -> list[Again]:
    unsettled = Unsettled(place or Place(START, Clock(), Settings()), from_ms)
    sound = unsettled_sound(caller.log, caller.ref, unsettled, session or Session(), until)
    return [again async for again in sound]


def samples_of(again: list[Again]) -> np.ndarray:
    return np.concatenate([np.rint(one.heard.samples * 32_768).astype(np.int64) for one in again])


async def said(caller: Caller) -> EntryId:
    """A second of sound in ten appends, with other commands between; returns the last entry."""
    for at in range(0, 16_000, 1_600):
        await caller.append(RAMP[at : at + 1_600].tobytes(), is_speech=at > 8_000)
        await caller.say(Heartbeat())
    return (await caller.log.head("call")).input


async def test_it_begins_at_the_sample_it_was_asked_for_and_ends_with_the_last_input_decided_on() -> None:
    caller = await Caller.open(MemoryLog(), "m")
    last = await said(caller)
    await caller.append(b"\1\0" * 160)
    again = await heard_again(caller, 250, last)
    assert np.array_equal(samples_of(again), np.arange(4_000, 16_000))
    assert [one.end_ms for one in again] == list(range(300, 1_100, 100))
    assert [one.is_speech for one in again] == [False] * 4 + [True] * 4


async def test_a_place_in_the_middle_saves_the_way_there() -> None:
    caller = await Caller.open(MemoryLog(), "m")
    last = await said(caller)
    entries = await caller.log.read_input(caller.ref, START)
    after = [entry.id for entry in entries if entry.audio][4]
    place = Place(after, Clock(16_000, 8_000), Settings())
    again = await heard_again(caller, 500, last, place=place)
    assert np.array_equal(samples_of(again), np.arange(8_000, 16_000))


async def test_more_appends_than_one_reading_holds_are_all_heard() -> None:
    caller = await Caller.open(MemoryLog(), "m")
    await caller.append(*[b"\1\0" * 16] * 1_200)
    again = await heard_again(caller, 0, (await caller.log.head("call")).input)
    assert len(again) == 1_200


async def test_sound_after_an_update_is_read_as_the_update_says() -> None:
    caller = await Caller.open(MemoryLog(), "m")
    await caller.append(b"\0\0" * 1_600)
    await caller.say(UpdateSession(session={"input_audio_format": "g711_ulaw"}))
    await caller.append(b"\xff" * 800)
    session = Session(settings=Settings(input_format="g711_ulaw", input_rate_hz=8_000))
    again = await heard_again(caller, 0, (await caller.log.head("call")).input, session=session)
    assert [(one.heard.rate_hz, one.heard.samples.size, one.end_ms) for one in again] == [
        (16_000, 1_600, 100),
        (8_000, 800, 200),
    ]


async def test_what_cannot_be_read_or_has_expired_is_left_out() -> None:
    log = MemoryLog()
    caller = await Caller.open(log, "m")
    await caller.append(RAMP[:1_600].tobytes(), b"odd", RAMP[1_600:3_200].tobytes())
    await caller.say(ClearInput())
    claimed = await log.claim("w", ["m"])
    assert claimed is not None
    last = (await log.head("call")).input
    assert len(await heard_again(caller, 0, last)) == 2
    await log.trim_audio(claimed[0], input_before=EntryId(1, 10_000), output_before=1)
    assert await heard_again(caller, 0, last) == []


class CountingLog(MemoryLog):
    """Counts the entries that are read with their sound."""

    read = 0

    async def read_input(self, *arguments: Any, **options: Any) -> list[Entry]:
        entries = await super().read_input(*arguments, **options)
        self.read += len(entries)
        return entries


async def minutes(caller: Caller, count: int) -> EntryId:
    """So many minutes in appends of 100 ms, each of its own level; returns the last entry."""
    for at in range(count * 60):
        await caller.append(*[np.full(1_600, at, dtype="<i2").tobytes()] * 10)
    return (await caller.log.head("call")).input


async def test_sound_long_after_the_last_place_is_found_from_its_end() -> None:
    log = CountingLog()
    caller = await Caller.open(log, "m")
    last = await minutes(caller, 20)
    session = Session(input=Input(clock=Clock(16_000, 20 * 60 * 16_000)))
    again = await heard_again(caller, 20 * 60_000 - 2_050, last, session=session)
    assert np.array_equal(samples_of(again), np.repeat([1_197, 1_198, 1_199], [800, 16_000, 16_000]))
    assert again[-1].end_ms == 20 * 60_000
    assert log.read < 2_000


async def test_sound_whose_beginning_was_dropped_is_heard_from_where_it_is_left() -> None:
    caller = await Caller.open(MemoryLog(), "m")
    last = await minutes(caller, 1)
    claimed = await caller.log.claim("w", ["m"])
    assert claimed is not None
    await caller.log.trim_history(claimed[0], input_before=EntryId(1, last.number - 14), output_before=0)
    session = Session(input=Input(clock=Clock(16_000, 60 * 16_000)))
    again = await heard_again(caller, 5_000, last, place=Place(EntryId(1, 1), Clock(), Settings()), session=session)
    assert 1.3 <= sum(one.heard.samples.size for one in again) / 16_000 <= 1.5
    assert again[-1].end_ms == 60_000


async def test_a_committed_turn_is_heard_again_up_to_its_commit_and_no_further() -> None:
    caller = await Caller.open(MemoryLog(), "m")
    last = await said(caller)
    await caller.append(b"\1\0" * 1_600)
    turn = CommittedTurn("item", 250, 1_000, last.generation, last.number)
    committed = Committed(turn, Unsettled(Place(START, Clock(), Settings()), 250))
    again = [one async for one in committed_sound(caller.log, caller.ref, committed, Session())]
    assert np.array_equal(samples_of(again), np.arange(4_000, 16_000))
    assert [one.skipped for one in again] == [800, *[0] * 7]


async def test_a_committed_turn_whose_place_is_far_is_found_from_its_end() -> None:
    caller = await Caller.open(MemoryLog(), "m")
    await caller.append(*[b"\2\0" * 16_000] * 14)
    last = await said(caller)
    await caller.append(*[b"\3\0" * 16_000] * 14)
    turn = CommittedTurn("item", 14_250, 15_000, last.generation, last.number)
    committed = Committed(turn, Unsettled(Place(START, Clock(), Settings()), 14_250))
    now = Session(input=Input(clock=Clock(16_000, 29 * 16_000)))
    again = [one async for one in committed_sound(caller.log, caller.ref, committed, now)]
    assert np.array_equal(samples_of(again), np.arange(4_000, 16_000))
