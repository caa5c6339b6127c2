"""A voice for those who have no recording: syllables of a buzzing glottis through two moving formants.

It means nothing, but a voice detector takes it for speech, it has pauses like speech, and it is the same everywhere.
"""

from __future__ import annotations

import math
from array import array
from functools import lru_cache

from ..waves import Wave

PITCH_HZ = 120.0
SYLLABLE_MS = 180
VOWELS_HZ = ((730, 1090), (270, 2290), (530, 1840), (660, 1720))
BANDWIDTH_HZ = 90.0
LEVEL = 50_000.0
# A question that ends in silence would leave its end to the server's patience.
FADE = 0.15


@lru_cache(maxsize=4)
def babble(duration_ms: int, sample_rate_hz: int = 16_000) -> Wave:
    """``duration_ms`` of babble at ``sample_rate_hz``; the same samples for the same arguments."""
    total = duration_ms * sample_rate_hz // 1000
    per_syllable = max(1, SYLLABLE_MS * sample_rate_hz // 1000)
    samples = array("h", bytes(2 * total))
    state = [[0.0, 0.0], [0.0, 0.0]]
    period = sample_rate_hz / PITCH_HZ
    next_pulse = 0.0
    for at in range(total):
        syllable, inside = divmod(at, per_syllable)
        formants = VOWELS_HZ[syllable % len(VOWELS_HZ)]
        pulse = 0.0
        if at >= next_pulse:
            pulse, next_pulse = 1.0, next_pulse + period * (1 + 0.08 * math.sin(at / sample_rate_hz * 5))
        value = sum(
            _resonance(memory, pulse, formant_hz, sample_rate_hz)
            for memory, formant_hz in zip(state, formants, strict=True)
        )
        samples[at] = max(-32_000, min(32_000, round(LEVEL * value * _loudness(inside / per_syllable))))
    return Wave(samples.tobytes(), sample_rate_hz)


def _resonance(memory: list[float], pulse: float, formant_hz: float, sample_rate_hz: int) -> float:
    """One step of a two-pole resonator at ``formant_hz``."""
    radius = math.exp(-math.pi * BANDWIDTH_HZ / sample_rate_hz)
    angle = 2 * math.pi * formant_hz / sample_rate_hz
    value = pulse + 2 * radius * math.cos(angle) * memory[0] - radius * radius * memory[1]
    memory[1], memory[0] = memory[0], value
    return value * (1 - radius)


def _loudness(part: float) -> float:
    """The envelope of a syllable; never silent, or each would be a word of its own to a detector."""
    return 3.0 * (FADE + (1 - FADE) * math.sin(math.pi * part) ** 2)
