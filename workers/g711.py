"""G.711 (ITU-T), both laws, both ways, by table: 8-bit codes and linear 16-bit samples."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from duplex_es.protocol.audio import G711_ALAW, G711_ULAW

Linear = npt.NDArray[np.int16]
Codes = npt.NDArray[np.uint8]

SILENCE = {G711_ULAW: 0xFF, G711_ALAW: 0xD5}
"""The code of the smallest positive value: what a line carries while nobody speaks."""

_ULAW_BIAS, _ULAW_CLIP = 0x84, 8_158


def decode(encoding: str, data: bytes) -> Linear:
    """One linear sample per code. ``encoding`` is ``g711_ulaw`` or ``g711_alaw``."""
    return np.asarray(_TO_LINEAR[encoding][np.frombuffer(data, dtype=np.uint8)])


def encode(encoding: str, samples: Linear) -> bytes:
    """One code per linear sample, as the reference coder has it."""
    return bytes(_TO_CODE[encoding][samples.view(np.uint16)].tobytes())


def _ulaw_values() -> Linear:
    code = ~np.arange(256, dtype=np.int32) & 0xFF
    magnitude = ((((code & 0x0F) << 3) + _ULAW_BIAS) << ((code & 0x70) >> 4)) - _ULAW_BIAS
    return np.where(code & 0x80, -magnitude, magnitude).astype(np.int16)


def _alaw_values() -> Linear:
    code = np.arange(256, dtype=np.int32) ^ 0x55
    segment, mantissa = (code & 0x70) >> 4, (code & 0x0F) << 4
    magnitude = np.where(segment == 0, mantissa + 8, (mantissa + 0x108) << np.maximum(segment - 1, 0))
    return np.where(code & 0x80, magnitude, -magnitude).astype(np.int16)


def _all_samples() -> npt.NDArray[np.int32]:
    """Every 16-bit value, at the index of its unsigned bit pattern."""
    return np.arange(65_536, dtype=np.uint16).view(np.int16).astype(np.int32)


def _segment(magnitude: npt.NDArray[np.int32], lowest_bit: int) -> npt.NDArray[np.int32]:
    """Which power of two above ``lowest_bit`` a magnitude reaches, from 0 to 7."""
    segment = np.zeros_like(magnitude)
    for step in range(1, 8):
        segment[magnitude >= 1 << (lowest_bit + step)] = step
    return segment


def _ulaw_codes() -> Codes:
    value = _all_samples() >> 2  # Mu-law has 14 bits.
    magnitude = np.minimum(np.abs(value), _ULAW_CLIP) + (_ULAW_BIAS >> 2)
    segment = _segment(magnitude, 5)
    code = (segment << 4) | ((magnitude >> (segment + 1)) & 0x0F)
    return (~np.where(value < 0, code | 0x80, code) & 0xFF).astype(np.uint8)


def _alaw_codes() -> Codes:
    value = _all_samples() >> 3  # A-law has 13 bits.
    magnitude = np.where(value < 0, ~value, value)
    segment = _segment(magnitude, 4)
    code = (segment << 4) | ((magnitude >> np.maximum(segment, 1)) & 0x0F)
    return (np.where(value < 0, code, code | 0x80) ^ 0x55).astype(np.uint8)


_TO_LINEAR = {G711_ULAW: _ulaw_values(), G711_ALAW: _alaw_values()}
_TO_CODE = {G711_ULAW: _ulaw_codes(), G711_ALAW: _alaw_codes()}
