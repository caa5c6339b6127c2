"""Audio formats: their spellings, their default rates, and exact arithmetic between bytes, samples and milliseconds.

All arithmetic is on integers and rounds down, so that durations over an hour are as exact as over a second, as long
as samples are added up and converted once.
"""

from __future__ import annotations

import struct
from typing import NamedTuple, TypeGuard

import msgspec

from .errors import ProtocolError
from .objects import Plain

PCM16 = "pcm16"
PCM_F32LE = "pcm_f32le"
G711_ULAW = "g711_ulaw"
G711_ALAW = "g711_alaw"
WAV = "wav"

MIN_RATE_HZ = 8_000
MAX_RATE_HZ = 192_000

SPELLINGS: dict[str, str] = {
    **dict.fromkeys(("pcm16", "pcm_s16le", "s16le", "pcm", "audio/pcm", "audio/pcm16"), PCM16),
    **dict.fromkeys(("pcm_f32le", "f32le", "audio/pcm_f32le"), PCM_F32LE),
    **dict.fromkeys(("g711_ulaw", "g711-ulaw", "ulaw", "mulaw", "pcmu", "audio/g711_ulaw", "audio/pcmu"), G711_ULAW),
    **dict.fromkeys(("g711_alaw", "g711-alaw", "alaw", "pcma", "audio/g711_alaw", "audio/pcma"), G711_ALAW),
    **dict.fromkeys(("wav", "audio/wav"), WAV),
}
"""Spelling in lower case → encoding."""

DEFAULT_RATE_HZ: dict[str, int] = {PCM16: 16_000, PCM_F32LE: 16_000, G711_ULAW: 8_000, G711_ALAW: 8_000, WAV: 16_000}
"""The rate of an input format that was declared without one."""

INPUT_ENCODINGS = frozenset({PCM16, PCM_F32LE, G711_ULAW, G711_ALAW})
OUTPUT_ENCODINGS = frozenset({PCM16, WAV, G711_ULAW, G711_ALAW})

_BYTES_PER_SAMPLE = {PCM16: 2, PCM_F32LE: 4, G711_ULAW: 1, G711_ALAW: 1}
_WIRE_TYPE = {PCM16: "audio/pcm", PCM_F32LE: "audio/pcm_f32le", G711_ULAW: "audio/pcmu", G711_ALAW: "audio/pcma"}
_NAME_KEYS = ("type", "format")
_RATE_KEYS = ("rate", "sample_rate_hz", "sample_rate")


class AudioFormat(msgspec.Struct, frozen=True):
    """Raw mono samples of one encoding at one rate. Raises: ValueError from arithmetic on anything else (``wav``)."""

    encoding: str
    sample_rate_hz: int

    @property
    def bytes_per_sample(self) -> int:
        """How many bytes one sample takes."""
        try:
            return _BYTES_PER_SAMPLE[self.encoding]
        except KeyError:
            raise ValueError(f"{self.encoding} has no fixed sample size") from None

    def samples(self, byte_count: int) -> int:
        """Whole samples in so many bytes."""
        return byte_count // self.bytes_per_sample

    def duration_ms(self, byte_count: int) -> int:
        """Whole milliseconds in so many bytes."""
        return self.samples(byte_count) * 1000 // self.sample_rate_hz

    def byte_count(self, duration_ms: int) -> int:
        """Bytes of the whole samples in ``duration_ms``."""
        return duration_ms * self.sample_rate_hz // 1000 * self.bytes_per_sample

    def to_wire(self) -> Plain:
        """The format object of the GA spelling: ``{"type": "audio/pcm", "rate": 16000}``."""
        return {"type": _WIRE_TYPE.get(self.encoding, f"audio/{self.encoding}"), "rate": self.sample_rate_hz}


class DeclaredFormat(NamedTuple):
    """What a client said about a format; ``None`` where it said nothing."""

    encoding: str | None = None
    sample_rate_hz: int | None = None
    channels: int | None = None


def is_rate(value: object) -> TypeGuard[int]:
    """Whether this may be declared as a sample rate: an integer from 8,000 to 192,000; ``true`` is none."""
    return isinstance(value, int) and not isinstance(value, bool) and MIN_RATE_HZ <= value <= MAX_RATE_HZ


def read_format(declared: object, *, param: str, output: bool = False) -> DeclaredFormat:
    """What ``declared`` (a name, a format object, ``None``) says, the encoding in its one spelling.

    Raises: ProtocolError ``unsupported_audio_format`` for a name, a rate or a shape that is not one; for ``wav`` as
    input and 32-bit float as output too, which can be spelled but not used.
    """
    name, rate, channels = declared, None, None
    if isinstance(declared, dict):
        name = next((declared[key] for key in _NAME_KEYS if declared.get(key) is not None), None)
        rate = next((declared[key] for key in _RATE_KEYS if declared.get(key) is not None), None)
        channels = declared.get("channels")
    encoding = SPELLINGS.get(name.strip().lower()) if isinstance(name, str) else None
    allowed = OUTPUT_ENCODINGS if output else INPUT_ENCODINGS
    if name is not None and encoding not in allowed:
        raise _unsupported(f"{_shown(name)} is not one of {', '.join(sorted(allowed))}", param)
    return DeclaredFormat(encoding, check_rate(rate, param=param), _channels(channels, param))


def check_rate(rate: object, *, param: str) -> int | None:
    """``rate`` when it may be declared, ``None`` for ``None``. Raises: ProtocolError ``unsupported_audio_format``."""
    if rate is None:
        return None
    if not is_rate(rate):
        raise _unsupported(
            f"a sample rate is an integer from {MIN_RATE_HZ} to {MAX_RATE_HZ}, not {_shown(rate)}", param
        )
    assert isinstance(rate, int)
    return rate


def append_format(declared: str | Plain | None, rate_hz: int | None, session: AudioFormat) -> AudioFormat:
    """The format of one append: its own declaration, completed by the session's.

    A format that differs from the session's and names no rate has its own default rate. ``wav`` is allowed here (the
    aliases that carry whole files use it); its rate is in its header.
    Raises: ProtocolError ``unsupported_audio_format``, param ``format``.
    """
    if isinstance(declared, str) and SPELLINGS.get(declared.strip().lower()) == WAV:
        return AudioFormat(WAV, rate_hz or DEFAULT_RATE_HZ[WAV])
    said = read_format(declared, param="format")
    encoding = said.encoding or session.encoding
    rate = rate_hz or said.sample_rate_hz
    if rate is None:
        rate = session.sample_rate_hz if encoding == session.encoding else DEFAULT_RATE_HZ[encoding]
    return AudioFormat(encoding, rate)


def split_whole_samples(data: bytes, encoding: str) -> tuple[bytes, bytes]:
    """``data`` up to its last whole sample, and the rest (shorter than a sample) to put before the next piece."""
    surplus = len(data) % _BYTES_PER_SAMPLE.get(encoding, 1)
    return (data[:-surplus], data[-surplus:]) if surplus else (data, b"")


def read_wav(data: bytes) -> tuple[AudioFormat, int, bytes]:
    """The format, channel count and samples of a WAV file: 16-bit integers, 32-bit floats, mu-law or A-law.

    Chunks other than ``fmt`` and ``data`` are skipped; a data chunk cut short is taken as far as it goes.
    Raises: ProtocolError ``bad_audio``, param ``audio``.
    """
    if data[:4] != b"RIFF" or data[8:12] != b"WAVE":
        raise ProtocolError("bad_audio", "The audio is declared as wav but has no RIFF/WAVE header.", "audio")
    at, shape = 12, None
    while at + 8 <= len(data):
        name, size = data[at : at + 4], struct.unpack_from("<I", data, at + 4)[0]
        body = data[at + 8 : at + 8 + size]
        if name == b"fmt " and len(body) >= 16:
            shape = struct.unpack_from("<HHIIHH", body)
            if shape[0] == 0xFFFE and len(body) >= 26:  # the extensible header keeps the real code in its GUID
                shape = (struct.unpack_from("<H", body, 24)[0], *shape[1:])
        elif name == b"data" and shape:
            return _wav_format(shape), shape[1], body
        at += 8 + size + (size & 1)
    raise ProtocolError("bad_audio", "The wav file has no fmt or no data chunk.", "audio")


def _wav_format(shape: tuple[int, ...]) -> AudioFormat:
    code, channels, rate, _, _, bits = shape
    encoding = {(1, 16): PCM16, (3, 32): PCM_F32LE, (7, 8): G711_ULAW, (6, 8): G711_ALAW}.get((code, bits))
    if encoding is None or channels == 0 or not is_rate(rate):
        raise ProtocolError(
            "bad_audio", f"The wav file holds format {code}, {bits} bits, {rate} Hz; use pcm16.", "audio"
        )
    return AudioFormat(encoding, rate)


def _channels(value: object, param: str) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise _unsupported(f"channels is a positive integer, not {_shown(value)}", param)
    return value


def _unsupported(rule: str, param: str) -> ProtocolError:
    return ProtocolError("unsupported_audio_format", f"{param}: {rule}.", param)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
