"""The sound of an unfinished turn, read back from the log sample by sample."""

from __future__ import annotations

import numpy as np
import pytest

from duplex_es.log.api import START, EntryId
from duplex_es.log.memory import MemoryLog
from duplex_es.protocol import ClearInput, Heartbeat, UpdateSession
from duplex_es.session.state import Clock, Session, Settings
from tests.support.calls import Caller
from workers.rehearing import Again, unsettled_sound
from workers.utterance import Place, Unsettled

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
