"""Sound by time, without numpy, against what the library of the tools makes of it."""

from __future__ import annotations

import io
import wave
from array import array
from collections.abc import AsyncIterator

import numpy as np
import pytest

from duplex_es.reading.calls import Call, read_call
from duplex_es.reading.dxlog import FileSource
from duplex_es.timeline.sound import Window, decoded, lane_of, sounds, stretched, within
from duplex_es.tools.log import audio
from tests.support.call_files import RECORDING

pytestmark = pytest.mark.unit


@pytest.fixture
async def opened() -> AsyncIterator[tuple[FileSource, Call]]:
    with FileSource(RECORDING) as source:
        yield source, await read_call(source, source.head)


@pytest.mark.parametrize("encoding", ["pcm16", "g711_ulaw", "g711_alaw", "pcm_f32le"])
def test_every_encoding_gives_the_samples_that_numpy_gives(encoding: str) -> None:
    data = bytes(range(256)) * 4
    if encoding == "pcm_f32le":
        data = np.array([0.0, 0.5, -0.5, 1.0, -1.0, 2.0, -3.0], "<f4").tobytes() + b"\0"
    assert list(decoded(data, encoding)) == audio.decoded(data, encoding).tolist()


def test_a_wav_gives_its_samples_and_what_is_none_gives_none() -> None:
    held = io.BytesIO()
    with wave.open(held, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8_000)
        file.writeframes(b"\1\0\2\0")
    assert list(decoded(held.getvalue(), "wav")) == [1, 2]
    assert list(decoded(b"no wave", "wav")) == []


def test_another_rate_keeps_the_length_and_the_course() -> None:
    line = array("h", range(0, 800, 10))
    assert list(stretched(line, 8_000, 16_000)[:6]) == [0, 5, 10, 15, 20, 25]
    assert len(stretched(line, 24_000, 16_000)) == len(line) * 2 // 3
    assert len(stretched(array("h"), 8_000, 16_000)) == 0


async def test_a_window_holds_what_is_heard_then_and_silence_elsewhere(opened: tuple[FileSource, Call]) -> None:
    source, call = opened
    window = Window(1_500, 3_000, 24_000)
    places = lane_of(call, "heard")
    async for placed, samples in sounds(source, call, "heard", within(places, 1_500, 3_000)):
        window.put(placed.begin_ms, placed.piece.rate_hz, samples)
    with wave.open(io.BytesIO(window.wav())) as file:
        assert (file.getframerate(), file.getnchannels(), file.getnframes()) == (24_000, 1, 36_000)
        samples = np.frombuffer(file.readframes(36_000), "<i2")
    loud = np.flatnonzero(np.abs(samples) > 500)
    assert (loud[0] / 24, loud[-1] / 24) == (pytest.approx(800, abs=5), pytest.approx(1_500, abs=5))


async def test_as_generated_an_answer_is_played_to_its_end_before_the_next(opened: tuple[FileSource, Call]) -> None:
    _, call = opened
    heard, generated = lane_of(call, "heard"), lane_of(call, "generated")
    assert sum(one.length_ms for one in heard) == 3_900
    assert sum(one.length_ms for one in generated) == 8_400
    assert generated[-1].begin_ms + generated[-1].length_ms == 11_700
    with pytest.raises(ValueError, match="caller, heard, generated"):
        lane_of(call, "both")


async def test_the_caller_of_a_later_socket_is_found_too(opened: tuple[FileSource, Call]) -> None:
    source, call = opened
    places = within(lane_of(call, "caller"), 6_300, 7_000)
    assert [str(one.piece.id) for one in places] == ["2-1", "2-2", "2-3"]
    found = [len(samples) async for _, samples in sounds(source, call, "caller", places)]
    assert found == [3_200, 3_200, 3_200]
    assert [one async for one in sounds(source, call, "caller", [])] == []
