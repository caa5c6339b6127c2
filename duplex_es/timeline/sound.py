"""Sound of a call by time: where each piece lies on a lane, its samples, and a WAV of a window.

Pure Python, without numpy: a gateway reads sound now and then, a second of it at a time.
"""

from __future__ import annotations

import io
import struct
import sys
from array import array
from bisect import bisect_left
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from ..log.api import EntryId
from ..reading.calls import Call, Piece, placed_as_generated
from ..reading.source import Source

LANES = ("caller", "heard", "generated")
"""The caller, and the assistant as heard or as generated."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A piece and the part of it that sounds: from ``begin_ms`` of the call, for ``length_ms``."""

    piece: Piece
    begin_ms: float
    length_ms: float


def lane_of(call: Call, lane: str) -> list[Placed]:
    """The pieces of a lane, by time. Raises: ValueError for a lane that there is not."""
    if lane == "caller":
        return [Placed(piece, piece.begin_ms, piece.duration_ms) for piece in call.heard]
    if lane == "heard":
        pieces = (piece for answer in call.answers for piece in answer.pieces if piece.keep_ms > 0)
        return [Placed(piece, piece.begin_ms, piece.keep_ms) for piece in pieces]
    if lane == "generated":
        return [Placed(piece, begin_ms, piece.duration_ms) for _, piece, begin_ms in placed_as_generated(call)]
    raise ValueError(f"no lane {lane!r}; there are {', '.join(LANES)}")


def within(places: Sequence[Placed], from_ms: float, to_ms: float) -> list[Placed]:
    """Those of ``places`` that sound in the window."""
    first = max(0, bisect_left(places, from_ms, key=lambda one: one.begin_ms) - 1)
    found = []
    for one in places[first:]:
        if one.begin_ms >= to_ms:
            break
        if one.begin_ms + one.length_ms > from_ms:
            found.append(one)
    return found


async def sounds(
    source: Source, call: Call, lane: str, places: Sequence[Placed]
) -> AsyncIterator[tuple[Placed, array[int]]]:
    """The samples of ``places`` that are still there, 16 bit, each at the rate of its piece."""
    if not places:
        return
    by_id = {one.piece.id: one for one in places}
    first, last = places[0].piece.id, places[-1].piece.id
    if lane == "caller":
        # One below: an entry's own number may be 0 only for records without sound.
        entries = source.input(call.head, EntryId(first.generation, first.number - 1), audio=True)
    else:
        entries = source.output(call.head, first.number - 1, audio=True)
    async for entry in entries:
        placed = by_id.get(entry.id)
        if placed is not None and entry.audio is not None:
            samples = decoded(entry.audio, placed.piece.encoding)
            yield placed, samples[: round(placed.length_ms * placed.piece.rate_hz / 1_000)]
        if entry.id >= last:
            return


class Window:
    """A stretch of a lane, filled piece by piece, silent where nothing is put."""

    def __init__(self, from_ms: int, to_ms: int, rate_hz: int) -> None:
        self.from_ms, self.rate_hz = from_ms, rate_hz
        self._samples = array("h", bytes(2 * ((to_ms - from_ms) * rate_hz // 1_000)))
        self._end: float | None = None
        self._at = 0

    def put(self, begin_ms: float, rate_hz: int, samples: array[int]) -> None:
        """Sound at its place; what follows the piece before within a sample or two follows it without a seam."""
        if rate_hz != self.rate_hz:
            samples = stretched(samples, rate_hz, self.rate_hz)
        at = round((begin_ms - self.from_ms) * self.rate_hz / 1_000)
        if self._end is not None and abs(begin_ms - self._end) < 1.0:
            at = self._at
        self._at, self._end = at + len(samples), begin_ms + len(samples) * 1_000 / self.rate_hz
        begin, end = max(0, at), min(len(self._samples), at + len(samples))
        if begin < end:
            self._samples[begin:end] = samples[begin - at : end - at]

    def wav(self) -> bytes:
        """The window as a WAV file, mono, 16 bit."""
        samples = self._samples
        if sys.byteorder == "big":
            samples = samples[:]
            samples.byteswap()
        data = samples.tobytes()
        head = b"WAVEfmt " + struct.pack("<IHHIIHH", 16, 1, 1, self.rate_hz, 2 * self.rate_hz, 2, 16)
        return b"RIFF" + struct.pack("<I", 28 + 8 + len(data)) + head + b"data" + struct.pack("<I", len(data)) + data


def stretched(samples: array[int], from_hz: int, to_hz: int) -> array[int]:
    """The same sound at another rate, by straight lines between samples: to listen to, not to measure."""
    if not samples:
        return samples
    count, last = len(samples) * to_hz // from_hz, len(samples) - 1
    made = array("h", bytes(2 * count))
    for number in range(count):
        whole, part = divmod(number * from_hz, to_hz)
        here = samples[min(whole, last)]
        made[number] = here + (samples[min(whole + 1, last)] - here) * part // to_hz
    return made


# -- encodings -----------------------------------------------------------------------------------------------------


def decoded(audio: bytes, encoding: str) -> array[int]:
    """16-bit samples of any encoding that the wire knows; of what it does not know, as of pcm16."""
    if encoding in ("g711_ulaw", "g711_alaw"):
        low, high = _G711[encoding]
        mixed = bytearray(2 * len(audio))
        mixed[0::2], mixed[1::2] = audio.translate(low), audio.translate(high)
        return _little(bytes(mixed))
    if encoding == "pcm_f32le":
        floats = array("f", audio[: len(audio) // 4 * 4])
        if sys.byteorder == "big":
            floats.byteswap()
        return array("h", [int(max(-1.0, min(1.0, one)) * 32_767) for one in floats])
    if encoding == "wav":
        audio = _wav_data(audio)
    return _little(audio[: len(audio) // 2 * 2])


def _little(data: bytes) -> array[int]:
    samples = array("h", data)
    if sys.byteorder == "big":
        samples.byteswap()
    return samples


def _wav_data(audio: bytes) -> bytes:
    import wave

    try:
        with wave.open(io.BytesIO(audio)) as file:
            return bytes(file.readframes(file.getnframes()))
    except (wave.Error, EOFError):
        return b""


def _g711_tables(encoding: str) -> tuple[bytes, bytes]:
    """Code → low and high byte of the sample, as ITU-T G.711 has it."""
    levels = array("h")
    for code in range(256):
        if encoding == "g711_ulaw":
            turned = ~code & 255
            level = ((((turned & 15) << 3) + 132) << ((turned >> 4) & 7)) - 132
            levels.append(-level if turned & 128 else level)
        else:
            turned = code ^ 0x55
            segment, level = (turned >> 4) & 7, ((turned & 15) << 4) + 8
            level = (level + 256) << (segment - 1) if segment else level
            levels.append(level if turned & 128 else -level)
    return bytes(one & 255 for one in levels), bytes((one >> 8) & 255 for one in levels)


_G711 = {encoding: _g711_tables(encoding) for encoding in ("g711_ulaw", "g711_alaw")}
