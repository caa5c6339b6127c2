"""Formats and the arithmetic between bytes, samples and milliseconds."""

from __future__ import annotations

import io
import struct
import wave

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duplex_es.protocol import (
    AudioFormat,
    DeclaredFormat,
    ProtocolError,
    append_format,
    check_rate,
    is_rate,
    read_format,
    read_wav,
    split_whole_samples,
)
from duplex_es.protocol.audio import DEFAULT_RATE_HZ, SPELLINGS

pytestmark = pytest.mark.unit

PCM16_16K = AudioFormat("pcm16", 16_000)
ENCODINGS = {
    "pcm16": "pcm16 pcm_s16le s16le pcm audio/pcm audio/pcm16",
    "pcm_f32le": "pcm_f32le f32le audio/pcm_f32le",
    "g711_ulaw": "g711_ulaw g711-ulaw ulaw mulaw audio/g711_ulaw pcmu audio/pcmu",
    "g711_alaw": "g711_alaw g711-alaw alaw audio/g711_alaw pcma audio/pcma",
    "wav": "wav audio/wav",
}
SPELLED = [(spelling, encoding) for encoding, spellings in ENCODINGS.items() for spelling in spellings.split()]


def refusal(declared: object, *, output: bool = False) -> ProtocolError:
    """The error that reading ``declared`` ends in."""
    with pytest.raises(ProtocolError) as caught:
        read_format(declared, param="audio.input.format", output=output)
    return caught.value


def test_the_table_of_spellings_holds_no_others() -> None:
    assert dict(SPELLED) == SPELLINGS


@pytest.mark.parametrize(("spelling", "encoding"), SPELLED)
def test_a_format_is_known_under_each_spelling_in_any_case(spelling: str, encoding: str) -> None:
    for declared in (spelling, spelling.upper(), f" {spelling} ", {"type": spelling}, {"format": spelling}):
        if encoding == "wav":
            assert refusal(declared).code == "unsupported_audio_format"
        else:
            assert read_format(declared, param="p").encoding == encoding


def test_output_may_be_wav_but_not_float() -> None:
    assert read_format("wav", param="p", output=True).encoding == "wav"
    assert refusal("pcm_f32le", output=True).code == "unsupported_audio_format"


@pytest.mark.parametrize("key", ["rate", "sample_rate_hz", "sample_rate"])
def test_a_format_object_names_its_rate_under_three_keys(key: str) -> None:
    declared = {"type": "audio/pcm", key: 24_000, "channels": 1}
    assert read_format(declared, param="p") == DeclaredFormat("pcm16", 24_000, 1)


def test_nothing_said_is_nothing_declared() -> None:
    assert read_format(None, param="p") == read_format({}, param="p") == DeclaredFormat()


@pytest.mark.parametrize(
    "declared",
    [
        "mp3",
        "",
        7,
        ["pcm16"],
        True,
        {"type": 5},
        {"type": "audio/pcm", "rate": "16000"},
        {"type": "audio/pcm", "rate": 16000.0},
        {"type": "audio/pcm", "rate": True},
        {"type": "audio/pcm", "rate": 7_999},
        {"type": "audio/pcm", "rate": 192_001},
        {"type": "audio/pcm", "channels": 0},
        {"type": "audio/pcm", "channels": "mono"},
        "x" * 1000,
    ],
)
def test_what_is_no_format_is_refused_by_field(declared: object) -> None:
    error = refusal(declared)
    assert (error.code, error.param) == ("unsupported_audio_format", "audio.input.format")
    assert len(error.message) < 200


@pytest.mark.parametrize(("rate", "fits"), [(8_000, True), (192_000, True), (7_999, False), (192_001, False)])
def test_a_rate_lies_within_its_bounds(rate: int, fits: bool) -> None:
    assert is_rate(rate) is fits


def test_no_rate_is_no_rate() -> None:
    assert check_rate(None, param="p") is None
    assert check_rate(16_000, param="p") == 16_000


def test_default_rates_are_16_khz_and_8_khz_for_telephony() -> None:
    assert {encoding: DEFAULT_RATE_HZ[encoding] for encoding in ("pcm16", "pcm_f32le", "g711_ulaw", "g711_alaw")} == {
        "pcm16": 16_000,
        "pcm_f32le": 16_000,
        "g711_ulaw": 8_000,
        "g711_alaw": 8_000,
    }


@pytest.mark.parametrize(
    ("declared", "rate", "session", "resolved"),
    [
        (None, None, AudioFormat("pcm16", 24_000), AudioFormat("pcm16", 24_000)),
        (None, 48_000, PCM16_16K, AudioFormat("pcm16", 48_000)),
        ("pcm16", None, AudioFormat("pcm16", 24_000), AudioFormat("pcm16", 24_000)),
        ("pcm16", None, AudioFormat("g711_ulaw", 8_000), PCM16_16K),
        ("ulaw", None, PCM16_16K, AudioFormat("g711_ulaw", 8_000)),
        ({"type": "audio/pcm", "rate": 24_000}, None, PCM16_16K, AudioFormat("pcm16", 24_000)),
        ({"type": "audio/pcm", "rate": 24_000}, 48_000, PCM16_16K, AudioFormat("pcm16", 48_000)),
        ("wav", None, PCM16_16K, AudioFormat("wav", 16_000)),
    ],
)
def test_a_chunk_is_completed_by_its_session(
    declared: str | dict[str, object] | None, rate: int | None, session: AudioFormat, resolved: AudioFormat
) -> None:
    assert append_format(declared, rate, session) == resolved


def test_a_chunk_of_an_unknown_format_is_refused() -> None:
    with pytest.raises(ProtocolError, match="mp3"):
        append_format("mp3", None, PCM16_16K)


@given(st.integers(8_000, 192_000), st.integers(0, 10**9))
def test_durations_round_down_and_never_exceed_what_is_there(rate: int, samples: int) -> None:
    audio = AudioFormat("pcm16", rate)
    duration_ms = audio.duration_ms(samples * 2 + 1)
    assert duration_ms * rate <= samples * 1000 < (duration_ms + 1) * rate
    assert audio.byte_count(duration_ms) <= samples * 2


@pytest.mark.parametrize(
    ("encoding", "rate", "byte_count"),
    [("pcm16", 16_000, 6_400), ("pcm_f32le", 24_000, 19_200), ("g711_ulaw", 8_000, 1_600), ("g711_alaw", 8_000, 1_600)],
)
def test_200_ms_have_their_known_size(encoding: str, rate: int, byte_count: int) -> None:
    audio = AudioFormat(encoding, rate)
    assert audio.byte_count(200) == byte_count
    assert audio.duration_ms(byte_count) == 200


def test_a_file_format_has_no_sample_size() -> None:
    with pytest.raises(ValueError, match="wav"):
        AudioFormat("wav", 16_000).duration_ms(100)


@pytest.mark.parametrize(
    ("encoding", "wire"),
    [("pcm16", "audio/pcm"), ("g711_ulaw", "audio/pcmu"), ("g711_alaw", "audio/pcma"), ("wav", "audio/wav")],
)
def test_the_format_object_is_spelled_for_stock_clients(encoding: str, wire: str) -> None:
    spelled = AudioFormat(encoding, 8_000).to_wire()
    assert spelled == {"type": wire, "rate": 8_000}
    assert read_format(spelled, param="p", output=True) == DeclaredFormat(encoding, 8_000)


@given(st.binary(), st.sampled_from(["pcm16", "pcm_f32le", "g711_ulaw", "wav"]), st.integers(1, 7))
def test_pieces_cut_anywhere_join_into_the_same_samples(data: bytes, encoding: str, size: int) -> None:
    whole, carry = b"", b""
    for at in range(0, len(data), size):
        piece, carry = split_whole_samples(carry + data[at : at + size], encoding)
        whole += piece
    assert whole + carry == data
    assert (whole, carry) == split_whole_samples(data, encoding)


def wav(pcm: bytes, *, rate: int = 24_000, channels: int = 1, width: int = 2) -> bytes:
    """A file as Python's own writer makes it."""
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(channels)
        out.setsampwidth(width)
        out.setframerate(rate)
        out.writeframes(pcm)
    return file.getvalue()


def chunked(code: int, bits: int, body: bytes, *, extra: bytes = b"") -> bytes:
    """A file with a header of this format code, and an odd-sized chunk before the data."""
    fmt = struct.pack("<HHIIHH", code, 1, 8_000, 8_000, 1, bits) + extra
    chunks = b"".join(
        name + struct.pack("<I", len(data)) + data + b"\0" * (len(data) & 1)
        for name, data in ((b"fmt ", fmt), (b"LIST", b"odd"), (b"data", body))
    )
    return b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WAVE" + chunks


def test_a_wav_file_gives_up_its_samples() -> None:
    assert read_wav(wav(b"\x01\x02\x03\x04")) == (AudioFormat("pcm16", 24_000), 1, b"\x01\x02\x03\x04")
    assert read_wav(wav(bytes(8), channels=2))[1] == 2


def test_other_chunks_are_skipped_and_a_short_data_chunk_is_taken_as_it_is() -> None:
    file = chunked(7, 8, b"\xff\xff\xff\xff")
    assert read_wav(file) == (AudioFormat("g711_ulaw", 8_000), 1, b"\xff\xff\xff\xff")
    assert read_wav(file[:-2])[2] == b"\xff\xff"


def test_the_extensible_header_is_read_through_to_the_real_format() -> None:
    extra = struct.pack("<HHI", 22, 16, 4) + struct.pack("<H", 1) + bytes(14)
    assert read_wav(chunked(0xFFFE, 16, b"\0\0", extra=extra))[0].encoding == "pcm16"


@pytest.mark.parametrize(
    "file",
    [b"", b"\x00\x01" * 100, b"RIFF\0\0\0\0WAVE", chunked(85, 16, b""), wav(bytes(3), width=3), wav(b"", rate=4_000)],
    ids=["empty", "raw samples", "no chunks", "mp3 inside", "24 bits", "4 kHz"],
)
def test_what_is_no_usable_wav_file_is_bad_audio(file: bytes) -> None:
    with pytest.raises(ProtocolError) as caught:
        read_wav(file)
    assert (caught.value.code, caught.value.param) == ("bad_audio", "audio")


@given(st.binary().map(lambda tail: b"RIFF\0\0\0\0WAVEfmt " + tail))
def test_a_broken_wav_file_is_never_worse_than_bad_audio(file: bytes) -> None:
    try:
        read_wav(file)
    except ProtocolError as error:
        assert error.code == "bad_audio"
