"""The voice detector over whole sessions: where utterances begin and end, on which clock, and after a takeover."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from duplex_es.session.inputs import VadVerdict
from duplex_es.session.state import Clock
from tests.support.voices import silence, spoken
from workers.detector import Detector, Detectors, Found, endpoint_settings
from workers.listener import Heard
from workers.vad.silero import SileroVad

pytestmark = pytest.mark.unit

NATIVE = {
    "type": "server_vad",
    "threshold": 0.5,
    "prefix_padding_ms": 300,
    "silence_duration_ms": 500,
    "min_speech_duration_ms": 96.0,
}
AT_ONCE = {**NATIVE, "min_speech_duration_ms": 0.0}


class Loudness:
    """A network that hears nothing but how loud a frame is: 0.9, 0.4 for something between, or 0.0."""

    fails = False

    def step(self, states: list[object], frames: list[np.ndarray]) -> np.ndarray:
        if self.fails:
            raise RuntimeError("no more")
        loud = [float(np.sqrt(np.mean(np.square(frame)))) for frame in frames]
        return np.array([0.9 if level > 0.3 else 0.4 if level > 0.1 else 0.0 for level in loud], np.float32)


@pytest.fixture
def detectors() -> Iterator[Detectors]:
    made = Detectors(Loudness)  # type: ignore[arg-type]
    yield made
    made.close()


def sound(ms: float, level: float = 0.5, rate_hz: int = 16_000) -> np.ndarray:
    return np.full(int(ms * rate_hz / 1000), level, np.float32)


def pause(ms: float, rate_hz: int = 16_000) -> np.ndarray:
    return sound(ms, 0.0, rate_hz)


def changes(found: list[Found]) -> list[tuple[str, int | None]]:
    told: list[tuple[str, int | None]] = []
    for _, verdict in found:
        if verdict.speech_started:
            told.append(("start", verdict.start_ms))
        if verdict.speech_stopped:
            told.append(("stop", verdict.end_ms))
    return told


async def heard(detector: Detector, samples: np.ndarray, *, chunk_ms: int = 20, rate_hz: int = 16_000) -> list[Found]:
    size, found = chunk_ms * rate_hz // 1000, []
    for at in range(0, samples.size, size):
        found += await detector.judge(Heard(samples[at : at + size], rate_hz, None))
    return found


UTTERANCE = np.concatenate([pause(960), sound(640), pause(1_280)])


@pytest.mark.parametrize("chunk_ms", [7, 20, 32, 100, 5_000])
async def test_an_utterance_begins_before_its_first_loud_frame_and_ends_after_its_silence(
    detectors: Detectors, chunk_ms: int
) -> None:
    found = await heard(Detector(detectors, NATIVE, Clock()), UTTERANCE, chunk_ms=chunk_ms)
    # 300 ms of padding before 960; 500 ms of silence are 16 frames of 32.
    assert changes(found) == [("start", 660), ("stop", 1_600 + 512)]


@pytest.mark.parametrize("chunk_ms", [7, 20, 5_000])
async def test_the_verdicts_on_an_append_cover_it_and_change_where_the_detector_decided(
    detectors: Detectors, chunk_ms: int
) -> None:
    found = await heard(Detector(detectors, NATIVE, Clock()), UTTERANCE, chunk_ms=chunk_ms)
    assert sum(samples for samples, _ in found) == UTTERANCE.size
    assert all(samples > 0 for samples, _ in found)
    at, places = 0, {}
    for samples, verdict in found:
        at += samples
        if verdict.speech_started or verdict.speech_stopped:
            assert verdict.speech_started != verdict.speech_stopped
            places["start" if verdict.speech_started else "stop"] = at / 16
    assert 960 + 96 <= places["start"] <= 960 + 96 + min(chunk_ms, 32)
    assert 2_112 <= places["stop"] <= 2_112 + min(chunk_ms, 32)


async def test_while_an_utterance_runs_every_piece_says_so(detectors: Detectors) -> None:
    found = await heard(Detector(detectors, NATIVE, Clock()), np.concatenate([pause(320), sound(640)]))
    running = [verdict for _, verdict in found if verdict.speech_active]
    assert [verdict.speech_started for verdict in running] == [True] + [False] * (len(running) - 1)
    assert all(verdict.is_speech and verdict.probability == pytest.approx(0.9) for verdict in running)
    quiet = found[0].verdict
    assert quiet == VadVerdict(is_speech=False, speech_active=False)


async def test_several_utterances_in_one_append_are_told_one_after_the_other(detectors: Detectors) -> None:
    samples = np.concatenate([UTTERANCE, UTTERANCE])
    found = await heard(Detector(detectors, NATIVE, Clock()), samples, chunk_ms=60_000)
    assert [kind for kind, _ in changes(found)] == ["start", "stop", "start", "stop"]
    assert not found[-1].verdict.speech_active


async def test_what_lies_between_speech_and_silence_neither_begins_nor_ends_an_utterance(detectors: Detectors) -> None:
    between = sound(2_000, 0.2)
    assert changes(await heard(Detector(detectors, NATIVE, Clock()), between)) == []
    said = np.concatenate([sound(320), between])
    assert changes(await heard(Detector(detectors, NATIVE, Clock()), said)) == [("start", 0)]


async def test_a_click_shorter_than_the_shortest_speech_is_nothing(detectors: Detectors) -> None:
    click = np.concatenate([pause(320), sound(64), pause(640)])
    assert changes(await heard(Detector(detectors, NATIVE, Clock()), click)) == []
    assert [kind for kind, _ in changes(await heard(Detector(detectors, AT_ONCE, Clock()), click))] == ["start", "stop"]


async def test_the_clock_of_the_session_goes_on_where_the_stream_begins(detectors: Detectors) -> None:
    clock = Clock(24_000, 24_000 * 5)
    found = await heard(Detector(detectors, NATIVE, clock), np.concatenate([sound(320), pause(640)]))
    # The padding would reach back behind the clear.
    assert changes(found) == [("start", 5_000), ("stop", 5_000 + 320 + 512)]


@pytest.mark.parametrize("rate_hz", [8_000, 24_000, 48_000])
async def test_a_caller_at_another_rate_is_heard_at_the_same_moments(detectors: Detectors, rate_hz: int) -> None:
    samples = np.concatenate([pause(960, rate_hz), sound(640, rate_hz=rate_hz), pause(1_280, rate_hz)])
    found = await heard(Detector(detectors, NATIVE, Clock(rate_hz)), samples, rate_hz=rate_hz)
    (_, start_ms), (_, end_ms) = changes(found)
    assert start_ms == pytest.approx(660, abs=32)
    assert end_ms == pytest.approx(2_112, abs=32)
    assert sum(samples for samples, _ in found) == samples.size


async def test_a_successor_that_heard_the_turn_again_says_only_what_changes(detectors: Detectors) -> None:
    detector = Detector(detectors, NATIVE, Clock(), is_speaking=True)
    await detector.warm(Heard(np.concatenate([pause(320), sound(640)]), 16_000, None))
    found = await heard(detector, np.concatenate([sound(320), pause(640)]))
    assert changes(found) == [("stop", 1_280 + 512)]


async def test_a_successor_catches_up_with_what_its_predecessor_did_not_tell(detectors: Detectors) -> None:
    detector = Detector(detectors, NATIVE, Clock())
    await detector.warm(Heard(np.concatenate([pause(320), sound(640)]), 16_000, None))
    found = await heard(detector, sound(100))
    assert changes(found) == [("start", 20)]
    over = Detector(detectors, NATIVE, Clock(), is_speaking=True)
    assert changes(await heard(over, pause(100))) == [("stop", 0)]


async def test_it_follows_the_sessions_clock_where_that_counts_what_was_not_heard_here(detectors: Detectors) -> None:
    detector = Detector(detectors, NATIVE, Clock())
    await heard(detector, pause(960))
    detector.follow(Clock(16_000, 16_000 * 3))
    assert changes(await heard(detector, np.concatenate([sound(320), pause(640)]))) == [
        ("start", 2_700),
        ("stop", 3_832),
    ]
    detector.follow(Clock(16_000, 16_000))
    assert changes(await heard(detector, np.concatenate([sound(320), pause(640)])))[0] == ("start", 700)


async def test_a_network_that_cannot_be_loaded_is_tried_again() -> None:
    tries = []

    def load() -> SileroVad:
        tries.append(1)
        if len(tries) == 1:
            raise RuntimeError("not there")
        return Loudness()  # type: ignore[return-value]

    detectors = Detectors(load)
    with pytest.raises(RuntimeError, match="not there"):
        await detectors.ready()
    first = await detectors.ready()
    assert await detectors.ready() is first
    assert len(tries) == 2
    detectors.close()


def test_what_a_session_leaves_out_has_the_defaults_of_the_contract() -> None:
    settings = endpoint_settings({"type": "server_vad"})
    assert (settings.threshold, settings.silence_ms, settings.min_speech_ms) == (0.5, 500, 0)
    assert settings.frames(settings.longest_turn_ms) > 10**9


async def test_the_real_network_finds_the_words_and_not_the_room() -> None:
    detectors = Detectors()
    samples = np.concatenate([silence(1_000), spoken("What is seven plus five?"), silence(1_000)])
    said_ms = spoken("What is seven plus five?").size // 16
    found = await heard(Detector(detectors, NATIVE, Clock()), samples)
    (first, start_ms), (last, end_ms) = changes(found)
    assert (first, last) == ("start", "stop")
    assert start_ms == pytest.approx(700, abs=100)
    assert 1_000 + said_ms <= end_ms <= 1_000 + said_ms + 512 + 200
    detectors.close()
