"""Sound that a model names is had again, sample for sample, whatever the resampler was in the middle of."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duplex_es.log.api import EntryId, SessionRef
from duplex_es.log.memory import MemoryLog
from duplex_es.model import Sound
from duplex_es.protocol import AudioFormat, CommitInput
from duplex_es.session.state import Settings
from tests.support.calls import Caller
from workers.listener import Heard, decoded
from workers.places import Place, Tracker, sound_at

pytestmark = pytest.mark.unit

NOISE = np.random.default_rng(1).integers(-9_000, 9_000, 24_000, dtype="<i2").tobytes()
SETTINGS = Settings()


def heard(pcm: bytes, rate_hz: int) -> Heard:
    return Heard(decoded(AudioFormat("pcm16", rate_hz), pcm), rate_hz, None)


class Session:
    """A caller on a log, and the ear of the worker that follows."""

    def __init__(self, caller: Caller, rate_hz: int) -> None:
        self.caller, self.rate_hz = caller, rate_hz
        self.ear = Tracker(24_000)
        self.fed: list[tuple[bytes, str]] = []
        self.entry = EntryId(1, 1)

    @classmethod
    async def open(cls, rate_hz: int) -> Session:
        return cls(await Caller.open(MemoryLog(), "echo"), rate_hz)

    @property
    def ref(self) -> SessionRef:
        return self.caller.ref

    async def append(self, *sizes: int, skipped: int = 0) -> None:
        """Append pieces of the noise of so many samples; of the first, ``skipped`` are not heard."""
        for size in sizes:
            pcm = NOISE[: size * 2]
            await self.caller.append(pcm, sample_rate_hz=self.rate_hz)
            self.entry = (await self.caller.log.head("call")).input
            self.fed.append(self.ear.hear(heard(pcm[skipped * 2 :], self.rate_hz), self.entry, skipped))
            skipped = 0

    async def commit(self) -> None:
        await self.caller.say(CommitInput())
        self.entry = (await self.caller.log.head("call")).input
        self.fed.append(self.ear.rest(self.entry))

    async def again(self, first: int, last: int, offset: int = 0, short: int = 0) -> tuple[bytes, bytes]:
        """What the model was fed from piece ``first`` to piece ``last``, and what is had again of it."""
        fed = b"".join(pcm for pcm, _ in self.fed[first : last + 1])[offset * 4 :]
        fed = fed[: len(fed) - short * 4]
        sound = Sound(first=self.fed[first][1], offset=offset, samples=len(fed) // 4, last=self.fed[last][1])
        return fed, await sound_at(self.caller.log, self.ref, sound, SETTINGS, self.entry, 24_000)


@pytest.mark.parametrize("rate_hz", [8_000, 16_000, 24_000, 48_000])
async def test_a_turn_that_was_committed_is_had_again_to_its_last_sample(rate_hz: int) -> None:
    session = await Session.open(rate_hz)
    await session.append(1_000, 320, 7)
    await session.commit()
    await session.append(900, 900, 481)
    await session.commit()
    await session.append(2_000)
    for first, last in ((4, 7), (5, 7), (0, 3)):
        fed, again = await session.again(first, last)
        assert len(fed) > 4 * 600
        assert again == fed


@pytest.mark.parametrize("rate_hz", [16_000, 24_000])
async def test_a_turn_in_the_middle_of_a_stream_is_had_again(rate_hz: int) -> None:
    session = await Session.open(rate_hz)
    await session.append(*[320] * 20)
    fed, again = await session.again(6, 15, offset=31, short=17)
    assert fed
    assert again == fed


@given(st.lists(st.integers(1, 900), min_size=1, max_size=6), st.integers(0, 40), st.sampled_from([8_000, 24_000]))
@settings(max_examples=25, deadline=None)
async def test_what_was_heard_from_within_an_append_is_had_again(sizes: list[int], skipped: int, rate_hz: int) -> None:
    session = await Session.open(rate_hz)
    await session.append(100)
    await session.commit()
    await session.append(sizes[0] + skipped, *sizes[1:], skipped=skipped)
    await session.commit()
    fed, again = await session.again(2, len(session.fed) - 1)
    assert again == fed


async def test_an_append_that_was_cut_in_two_is_one_stream() -> None:
    session = await Session.open(24_000)
    pcm = NOISE[:2_000]
    await session.caller.append(pcm, sample_rate_hz=24_000)
    entry = (await session.caller.log.head("call")).input
    session.fed = [session.ear.hear(heard(part, 24_000), entry) for part in (pcm[:600], pcm[600:])]
    session.entry = entry
    fed, again = await session.again(1, 1)
    assert again == fed == heard(pcm[600:], 24_000).samples.tobytes()


async def test_sound_that_is_gone_is_less() -> None:
    session = await Session.open(24_000)
    await session.append(400, 400)
    fed, _ = await session.again(0, 1)
    empty = Sound(first=str(Place(EntryId(9, 9))), offset=0, samples=10, last=str(Place(EntryId(9, 9))))
    assert fed
    assert await sound_at(session.caller.log, session.ref, empty, SETTINGS, session.entry, 24_000) == b""


async def test_sound_that_is_no_append_has_no_place() -> None:
    pcm, place = Tracker(24_000).hear(heard(NOISE[:480], 24_000), None)
    assert (len(pcm), place) == (960, "")


@pytest.mark.parametrize("text", ["", "?", "1-2", "1-2/3/4", "a/0/0/", "1-2/x/0/"])
async def test_a_place_nobody_named_is_nowhere(text: str) -> None:
    session = await Session.open(24_000)
    await session.append(400)
    assert Place.read(text) is None
    sound = Sound(first=text, offset=0, samples=4, last=text)
    assert await sound_at(session.caller.log, session.ref, sound, SETTINGS, session.entry, 24_000) == b""


@pytest.mark.parametrize("place", [Place(EntryId(1, 2)), Place(EntryId(1, 2), 3, 4, EntryId(5, 6))])
def test_a_place_is_read_as_it_was_written(place: Place) -> None:
    assert Place.read(str(place)) == place
