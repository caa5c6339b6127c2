"""``duplex-es log audio``: a call as a stereo WAV, the caller on the left, the assistant on the right.

Both channels lie on the call's own time: ``calls`` has the rules. Where sound has expired there is silence, and a note.
"""

from __future__ import annotations

import argparse
import io
import sys
import wave
from collections.abc import AsyncIterator, Iterator
from typing import Any

from ...log.api import Entry, EntryId
from ...reading.calls import Answer, Call, Piece, read_call
from ...reading.source import Source
from ...reading.words import seconds
from ..console import Console
from ..errors import ToolError
from .source import opened_source

BLOCK_S = 10
SEAM_S = 0.005
MOST_BYTES = 2**32 - 1024
"""A WAV counts its bytes in 32 bits."""


def _numpy() -> Any:
    try:
        import numpy
    except ImportError as error:
        raise ToolError("sound needs numpy and soxr: install duplex-es[tools]") from error
    return numpy


async def run(args: argparse.Namespace) -> int:
    """Write ``args.out``."""
    async with opened_source(args) as source:
        head = await source.find(args.session)
        call = await read_call(source, head)
        mixer = Mixer(call, generated=args.generated)
        if args.response is None and call.length_ms / 1000 * mixer.rate_hz * 4 > MOST_BYTES:
            length = f"{call.length_ms / 3_600_000:.1f} h from its first to its last record"
            raise ToolError(f"the call is {length}, more than a WAV can hold: write its responses one by one")
        if args.response is None:
            await _write(args, [mixer.caller(source), mixer.assistant(source)], mixer)
        else:
            found = [one for one in call.answers if one.response_id.startswith(args.response)]
            if len(found) != 1:
                raise ToolError(f"{len(found)} responses are called {args.response!r}")
            await _write(args, [mixer.assistant(source, found[0])], mixer)
    if mixer.silent_ms:
        missing = f"{seconds(mixer.silent_ms)} of sound has expired from {source.name}: it is silence here"
        print(f"duplex-es: {missing}", file=sys.stderr)
    return 0


async def _write(args: argparse.Namespace, channels: list[AsyncIterator[Any]], mixer: Mixer) -> None:
    np = _numpy()
    frames = 0
    try:
        with wave.open(str(args.out), "wb") as file:
            file.setnchannels(len(channels))
            file.setsampwidth(2)
            file.setframerate(mixer.rate_hz)
            held = [np.zeros(0, "<i2") for _ in channels]
            going = [True] * len(channels)
            while any(going) or any(len(one) for one in held):
                for at, channel in enumerate(channels):
                    while going[at] and len(held[at]) < BLOCK_S * mixer.rate_hz:
                        block = await anext(channel, None)
                        going[at] = block is not None
                        held[at] = held[at] if block is None else np.concatenate((held[at], block))
                size = max((len(one) for one, more in zip(held, going, strict=True) if not more), default=0)
                size = min([len(one) for one, more in zip(held, going, strict=True) if more], default=size)
                mixed = np.zeros((size, len(channels)), "<i2")
                for at, one in enumerate(held):
                    part = one[:size]
                    mixed[: len(part), at] = part
                    held[at] = one[size:]
                file.writeframesraw(mixed.tobytes())
                frames += size
    except OSError as error:
        raise ToolError(f"cannot write {args.out}: {error.strerror}") from error
    kind = "generated" if args.generated else "heard"
    shape = "caller left, assistant right" if len(channels) == 2 else "the response"
    Console().line(f"{args.out}: {frames / mixer.rate_hz:.2f} s, {shape}, as {kind}, {mixer.rate_hz} Hz")


class Mixer:
    """Makes both channels of ``call`` at the highest rate that occurs in it; ``silent_ms`` of them had expired."""

    def __init__(self, call: Call, *, generated: bool) -> None:
        self._call, self._generated = call, generated
        self.silent_ms = 0.0
        pieces = [*call.heard, *(piece for answer in call.answers for piece in answer.pieces)]
        self.rate_hz = max((piece.rate_hz for piece in pieces), default=16_000)

    def caller(self, source: Source) -> AsyncIterator[Any]:
        """What the caller said."""
        return self._channel(self._call.heard, source.input(self._call.head, audio=True))

    def assistant(self, source: Source, only: Answer | None = None) -> AsyncIterator[Any]:
        """What was answered; ``only`` one response, from its own beginning."""
        pieces = list(self._spoken(only))
        after = pieces[0].id.number - 1 if pieces else 0
        return self._channel(pieces, source.output(self._call.head, after, audio=True))

    def _spoken(self, only: Answer | None) -> Iterator[Piece]:
        answers = self._call.answers if only is None else [only]
        first_ms = only.pieces[0].begin_ms if only is not None and only.pieces else 0.0
        free_ms = 0.0
        for answer in answers:
            for piece in answer.pieces:
                if self._generated:
                    begin_ms = max(float(piece.at_ms) - first_ms, free_ms, 0.0)
                    piece.begin_ms, piece.keep_ms = begin_ms, piece.duration_ms
                    free_ms = begin_ms + piece.duration_ms
                else:
                    piece.begin_ms -= first_ms
                if piece.keep_ms > 0:
                    yield piece

    async def _channel(self, pieces: list[Piece], entries: AsyncIterator[Entry]) -> AsyncIterator[Any]:
        """The pieces as contiguous blocks at ``rate_hz``, silence between them."""
        np = _numpy()
        position, converter, from_hz = 0, None, 0
        by_id = {piece.id: piece for piece in pieces}
        last = pieces[-1].id if pieces else EntryId(0, 0)
        async for entry in entries:
            piece = by_id.get(entry.id)
            if piece is not None:
                begin = round(piece.begin_ms * self.rate_hz / 1_000)
                gap = begin - position - (_owed(converter, position))
                if converter is not None and (gap > SEAM_S * self.rate_hz or piece.rate_hz != from_hz):
                    rest = converter.resample_chunk(np.zeros(0, "<i2"), last=True)
                    position, converter = position + len(rest), None
                    yield rest
                    gap = begin - position
                if gap > SEAM_S * self.rate_hz:
                    for block in _silence(gap, self.rate_hz):
                        yield block
                    position += gap
                samples = self._samples(piece, entry.audio)
                if piece.rate_hz != self.rate_hz:
                    if converter is None:
                        converter, from_hz = _converter(piece.rate_hz, self.rate_hz), piece.rate_hz
                    samples = converter.resample_chunk(samples)
                position += len(samples)
                yield samples
            if entry.id >= last:
                break
        if converter is not None:
            yield converter.resample_chunk(np.zeros(0, "<i2"), last=True)

    def _samples(self, piece: Piece, audio: bytes | None) -> Any:
        np = _numpy()
        count = round(piece.keep_ms * piece.rate_hz / 1_000)
        if audio is None:
            self.silent_ms += piece.keep_ms
            return np.zeros(count, "<i2")
        found = decoded(audio, piece.encoding)
        return found[:count] if piece.keep_ms < piece.duration_ms else found


def _owed(converter: Any, position: int) -> int:
    """What a converter still holds back, in samples it will give."""
    return 0 if converter is None else int(converter.delay())


def _silence(samples: int, rate_hz: int) -> Iterator[Any]:
    np = _numpy()
    while samples > 0:
        block = min(samples, BLOCK_S * rate_hz)
        yield np.zeros(block, "<i2")
        samples -= block


def _converter(from_hz: int, to_hz: int) -> Any:
    try:
        import soxr
    except ImportError as error:
        raise ToolError("sound of two rates needs soxr: install duplex-es[tools]") from error
    return soxr.ResampleStream(from_hz, to_hz, 1, dtype="int16", quality="MQ")


def decoded(audio: bytes, encoding: str) -> Any:
    """16-bit samples of any encoding that the wire knows."""
    np = _numpy()
    if encoding == "wav":
        with wave.open(io.BytesIO(audio)) as file:
            audio = file.readframes(file.getnframes())
    elif encoding == "pcm_f32le":
        return (np.clip(np.frombuffer(audio[: len(audio) // 4 * 4], "<f4"), -1, 1) * 32_767).astype("<i2")
    elif encoding in ("g711_ulaw", "g711_alaw"):
        return _g711(np, encoding)[np.frombuffer(audio, "u1")]
    return np.frombuffer(audio[: len(audio) // 2 * 2], "<i2")


def _g711(np: Any, encoding: str) -> Any:
    """Code → sample, as ITU-T G.711 has it."""
    code = np.arange(256)
    if encoding == "g711_ulaw":
        code = ~code & 255
        level = (((code & 15) << 3) + 132 << ((code >> 4) & 7)) - 132
        return np.where(code & 128, -level, level).astype("<i2")
    code = code ^ 0x55
    segment, level = (code >> 4) & 7, ((code & 15) << 4) + 8
    level = np.where(segment > 0, (level + 256) << np.maximum(segment - 1, 0), level)
    return np.where(code & 128, level, -level).astype("<i2")
