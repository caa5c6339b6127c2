"""Audio cut into appends, and pictures laid beside it: which append closes a model unit and carries its frame."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .audio import PCM16_BYTES_PER_SAMPLE, PCM16_SAMPLE_RATE, AudioFormat

DUPLEX_FIRST_UNIT_MS = 1030
DUPLEX_UNIT_MS = 1000
DEFAULT_PERIOD_MS = 1000


def duplex_unit_boundary_ms(unit: int) -> int:
    """Where unit ``unit``, counted from 0, ends: milliseconds of audio appended since the first one began."""
    return DUPLEX_FIRST_UNIT_MS + unit * DUPLEX_UNIT_MS


def chunk_period_ms(events: Sequence[Mapping[str, Any]], default: int = DEFAULT_PERIOD_MS) -> int:
    """The length of a model unit, from the newest of these raw events that has a session with capabilities."""
    for event in reversed(events):
        session = event.get("session")
        capabilities = session.get("capabilities") if isinstance(session, Mapping) else None
        period_ms = capabilities.get("chunk_period_ms") if isinstance(capabilities, Mapping) else None
        if isinstance(period_ms, int) and not isinstance(period_ms, bool) and period_ms > 0:
            return period_ms
    return default


def has_residual_model_unit(pcm: bytes, *, chunk_period_ms: int) -> bool:
    """Whether 16 kHz ``pcm16`` ends inside a unit of that length."""
    unit_bytes = PCM16_SAMPLE_RATE * chunk_period_ms // 1000 * PCM16_BYTES_PER_SAMPLE
    return unit_bytes > 0 and len(pcm) % unit_bytes != 0


@dataclass(frozen=True, slots=True)
class Chunk:
    """One append: its samples, where it ends (milliseconds from the start of the stream), and its pictures if any."""

    pcm: bytes
    end_ms: float
    frames: tuple[str, ...] = ()


def chunks(
    pcm: bytes,
    audio: AudioFormat,
    *,
    chunk_ms: float,
    video_frames: Sequence[str] | None = None,
    stacked_video_frames: Sequence[str | None] | None = None,
) -> Iterator[Chunk]:
    """``pcm`` in pieces of ``chunk_ms``, at least a sample each, the last one shorter; the bytes are all there.

    Frame k rides the first append that reaches the end of unit k, followed by the composite k if there is one. The last
    frame repeats when the audio is longer, so a single picture stands still.
    """
    size = max(audio.bytes_per_sample, audio.byte_count(chunk_ms))
    bases, composites = list(video_frames or ()), list(stacked_video_frames or ())
    unit = 0
    for offset in range(0, len(pcm), size):
        piece = pcm[offset : offset + size]
        end_ms = audio.duration_ms(offset + len(piece))
        if not bases or end_ms < duplex_unit_boundary_ms(unit):
            yield Chunk(piece, end_ms)
            continue
        place = min(unit, len(bases) - 1)
        composite = composites[place] if place < len(composites) else None
        yield Chunk(piece, end_ms, (bases[place],) if composite is None else (bases[place], composite))
        unit += 1
