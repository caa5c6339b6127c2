"""The session's own voice, told from a caller's."""

from __future__ import annotations

import numpy as np
import pytest

from duplex_es.protocol import read_wav
from tests.support.talking import QUESTION
from workers.echo_guard import KEPT_MS, EchoGuard
from workers.listener import Heard, Samples, loudness

pytestmark = pytest.mark.unit

HZ = 16_000
VOICE_HZ = 24_000


def voice(name: str) -> Samples:
    """A recording of ``examples/audio``, (samples,) float32 at 16 kHz."""
    _, _, data = read_wav(QUESTION.with_name(f"{name}.wav").read_bytes())
    return np.frombuffer(data, "<i2").astype(np.float32) / 32768


def guard_that_spoke(samples: Samples, rate_hz: int = HZ) -> EchoGuard:
    guard = EchoGuard()
    pcm = (samples * 32767).astype("<i2")
    for at in range(0, pcm.size, rate_hz // 6):
        guard.spoke(pcm[at : at + rate_hz // 6].tobytes(), rate_hz)
    return guard


def kept(guard: EchoGuard, samples: Samples, rate_hz: int = HZ, chunk_ms: int = 40) -> float:
    """The part of the energy of ``samples`` that the guard lets through, piece by piece."""
    size = rate_hz * chunk_ms // 1000
    heard = [Heard(samples[at : at + size], rate_hz, None) for at in range(0, samples.size, size)]
    passed = [guard.without_echo(piece).samples for piece in heard]
    assert [piece.size for piece in passed] == [piece.samples.size for piece in heard]
    return float(sum(np.dot(p, p) for p in passed) / np.dot(samples, samples))


@pytest.mark.parametrize("chunk_ms", [20, 40, 100, 400])
def test_an_echo_at_a_quarter_of_the_loudness_is_silenced(chunk_ms: int) -> None:
    assert kept(guard_that_spoke(voice("story")), voice("story") * 0.25, chunk_ms=chunk_ms) < 0.1


def test_an_echo_that_comes_late_and_at_another_rate_is_silenced() -> None:
    spoken = voice("story")
    late = np.concatenate([np.zeros(HZ // 3, np.float32), spoken * 0.25])
    assert kept(guard_that_spoke(np.repeat(spoken, 3)[::2], VOICE_HZ), late) < 0.2


def test_another_voice_passes_untouched() -> None:
    assert kept(guard_that_spoke(voice("story")), voice("interrupt")) > 0.9


def test_a_caller_who_speaks_over_the_echo_is_heard() -> None:
    spoken, caller = voice("story"), voice("interrupt")
    both = caller[: spoken.size] + spoken[: caller.size] * 0.1
    assert kept(guard_that_spoke(spoken), both) > 0.6


def test_without_anything_spoken_everything_passes() -> None:
    assert kept(EchoGuard(), voice("question")) == pytest.approx(1.0)


def test_what_was_spoken_long_ago_is_no_echo_any_more() -> None:
    guard = guard_that_spoke(voice("story"))
    silence = Heard(np.zeros(HZ, np.float32), HZ, 0.0)
    for _ in range(KEPT_MS // 1000 + 1):
        guard.without_echo(silence)
    assert kept(guard, voice("story")) == pytest.approx(1.0)


def test_a_silenced_piece_is_measured_as_silence() -> None:
    guard = guard_that_spoke(voice("story"))
    echo = voice("story")[4_000:12_000]
    assert guard.without_echo(Heard(echo, HZ, loudness(echo))).rms == 0.0
