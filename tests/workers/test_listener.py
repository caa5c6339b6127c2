"""The ear: every accepted format read exactly, resampled without clicks, drift or a lost tail."""

from __future__ import annotations

import math
import struct
import warnings

import numpy as np
import pytest
import soxr

from duplex_es.protocol import AppendAudio, AudioFormat
from duplex_es.session.state import Settings
from workers.listener import Heard, Listener, decoded, hear

pytestmark = pytest.mark.unit

MODEL_RATE_HZ = 16_000
HELD_BACK_MS = 31
"""The most the resampler may keep to itself, whatever the rate: 10 ms from 24 kHz, 30 ms from 8 kHz."""


def floats(pcm: bytes) -> np.ndarray:
    return np.frombuffer(pcm, "<f4")


def sine(rate_hz: int, seconds: float, hz: float = 440.0, level: float = 0.5) -> np.ndarray:
    at = np.arange(int(rate_hz * seconds))
    return (np.sin(2 * np.pi * hz * at / rate_hz) * level).astype(np.float32)


def pieces(samples: np.ndarray, seed: int, longest: int) -> list[np.ndarray]:
    draw = np.random.default_rng(seed)
    cuts, at = [], 0
    while at < samples.size:
        size = int(draw.integers(1, longest))
        cuts.append(samples[at : at + size])
        at += size
    return cuts


def heard_in_pieces(rate_hz: int, parts: list[np.ndarray], *, model_rate_hz: int = MODEL_RATE_HZ) -> np.ndarray:
    ear = Listener(model_rate_hz)
    out = [ear.at_model_rate(Heard(part, rate_hz, None)) for part in parts]
    return floats(b"".join([*out, ear.rest()]))


# -- formats -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["g711_ulaw", "g711_alaw"])
def test_all_256_codes_of_g711_read_as_the_standard_library_reads_them(encoding: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        audioop = pytest.importorskip("audioop", reason="left the standard library with 3.13")
    codes = bytes(range(256))
    linear = audioop.ulaw2lin(codes, 2) if encoding == "g711_ulaw" else audioop.alaw2lin(codes, 2)
    expected = np.frombuffer(linear, "<i2").astype(np.float32) / 32768
    assert np.array_equal(decoded(AudioFormat(encoding, 8000), codes), expected)


@pytest.mark.parametrize(
    ("encoding", "code", "value"),
    [
        ("g711_ulaw", 0xFF, 0),
        ("g711_ulaw", 0x7F, 0),
        ("g711_ulaw", 0x00, -32124),
        ("g711_ulaw", 0x80, 32124),
        ("g711_ulaw", 0xEF, 132),
        ("g711_alaw", 0xD5, 8),
        ("g711_alaw", 0x55, -8),
        ("g711_alaw", 0xAA, 32256),
        ("g711_alaw", 0x2A, -32256),
    ],
)
def test_corner_codes_of_g711_have_the_values_of_the_recommendation(encoding: str, code: int, value: int) -> None:
    assert decoded(AudioFormat(encoding, 8000), bytes([code]))[0] * 32768 == value


def test_16_bit_samples_are_read_to_the_last_bit() -> None:
    data = struct.pack("<5h", -32768, -1, 0, 1, 32767)
    expected = [-1.0, -1 / 32768, 0.0, 1 / 32768, 32767 / 32768]
    assert decoded(AudioFormat("pcm16", 16000), data).tolist() == expected
    assert decoded(AudioFormat("pcm16", 16000), data).dtype == np.float32


def test_32_bit_floats_stay_as_they_are_but_within_bounds_and_without_what_is_no_number() -> None:
    data = struct.pack("<7f", 0.25, -1.0, 7.5, -3e38, math.nan, math.inf, -math.inf)
    assert decoded(AudioFormat("pcm_f32le", 16000), data).tolist() == [0.25, -1.0, 1.0, -1.0, 0.0, 1.0, -1.0]


def test_a_wav_append_is_read_at_the_rate_of_its_header() -> None:
    samples = struct.pack("<4h", 0, 16384, -16384, 8192)
    shape = struct.pack("<HHIIHH", 1, 1, 24_000, 48_000, 2, 16)
    body = b"WAVEfmt " + struct.pack("<I", len(shape)) + shape + b"data" + struct.pack("<I", len(samples)) + samples
    wav = b"RIFF" + struct.pack("<I", len(body)) + body
    heard = hear(Settings(), AppendAudio(audio=wav, format="wav"))
    assert heard is not None
    assert heard.rate_hz == 24_000
    assert heard.samples.tolist() == [0.0, 0.5, -0.5, 0.25]


def test_an_append_is_read_in_its_own_format_before_that_of_the_session() -> None:
    settings = Settings(input_format="g711_ulaw", input_rate_hz=8000)
    own = hear(settings, AppendAudio(audio=struct.pack("<2h", 0, 16384), format="pcm16", sample_rate_hz=24_000))
    sessions = hear(settings, AppendAudio(audio=b"\xff\x80"))
    assert own is not None and sessions is not None
    assert (own.rate_hz, own.samples.tolist()) == (24_000, [0.0, 0.5])
    assert (sessions.rate_hz, sessions.samples.tolist()) == (8000, [0.0, pytest.approx(32124 / 32768)])


@pytest.mark.parametrize(
    "command",
    [
        AppendAudio(audio=b""),
        AppendAudio(audio=b"\x01\x02\x03"),
        AppendAudio(audio=b"\x00\x00", channels=2),
        AppendAudio(audio=b"no riff", format="wav"),
        AppendAudio(audio=b"\x00\x00", format="opus"),
    ],
)
def test_an_append_that_cannot_be_read_is_nothing_rather_than_an_exception(command: AppendAudio) -> None:
    assert hear(Settings(), command) is None


# -- loudness ------------------------------------------------------------------------------------------------------


def test_pictures_come_with_their_append_and_nulls_are_left_out() -> None:
    heard = hear(Settings(), AppendAudio(audio=bytes(640), video_frames=["/9j/", None, "iVBO"]))
    assert heard is not None and heard.frames == ("/9j/", "iVBO")


def test_the_rms_of_a_full_sine_is_its_peak_over_the_square_root_of_two() -> None:
    data = np.rint(sine(16_000, 1.0, level=0.8) * 32767).astype("<i2").tobytes()
    heard = hear(Settings(), AppendAudio(audio=data))
    assert heard is not None and heard.rms == pytest.approx(0.8 / math.sqrt(2), rel=1e-3)


def test_silence_has_rms_zero_and_the_loudest_signal_one() -> None:
    silent = hear(Settings(), AppendAudio(audio=bytes(640)))
    loud = hear(Settings(), AppendAudio(audio=struct.pack("<h", -32768) * 320))
    assert silent is not None and loud is not None
    assert (silent.rms, loud.rms) == (0.0, 1.0)


@pytest.mark.parametrize("verdict", [True, False])
def test_nothing_is_measured_where_the_client_gives_the_verdict(verdict: bool) -> None:
    heard = hear(Settings(), AppendAudio(audio=bytes(640), is_speech=verdict))
    assert heard is not None and heard.rms is None


# -- resampling ----------------------------------------------------------------------------------------------------


def test_audio_at_the_models_rate_passes_through_unchanged_and_at_once() -> None:
    samples = sine(16_000, 0.1)
    ear = Listener(16_000)
    assert np.array_equal(floats(ear.at_model_rate(Heard(samples, 16_000, None))), samples)
    assert ear.rest() == b""


@pytest.mark.parametrize(("rate_hz", "minutes"), [(24_000, 60), (8_000, 60), (48_000, 10), (44_100, 10)])
def test_an_hour_in_pieces_of_any_size_comes_out_as_long_as_it_went_in(rate_hz: int, minutes: int) -> None:
    ear = Listener(MODEL_RATE_HZ)
    draw = np.random.default_rng(rate_hz)
    quiet = np.zeros(rate_hz * 20, dtype=np.float32)
    sent = got = 0
    while sent < rate_hz * 60 * minutes:
        size = int(draw.integers(1, quiet.size))
        got += len(ear.at_model_rate(Heard(quiet[:size], rate_hz, None))) // 4
        sent += size
        held_back_ms = sent * 1000 / rate_hz - got * 1000 / MODEL_RATE_HZ
        assert 0 <= held_back_ms <= HELD_BACK_MS
    got += len(ear.rest()) // 4
    assert abs(got - sent * MODEL_RATE_HZ / rate_hz) <= 1


@pytest.mark.parametrize("rate_hz", [24_000, 8_000, 48_000, 44_100])
@pytest.mark.parametrize("longest", [7, 1_000, 30_000])
def test_pieces_sound_like_the_whole_with_no_click_where_they_meet(rate_hz: int, longest: int) -> None:
    samples = sine(rate_hz, 1.0) + sine(rate_hz, 1.0, hz=1234.5, level=0.25)
    whole = heard_in_pieces(rate_hz, [samples])
    parts = heard_in_pieces(rate_hz, pieces(samples, seed=longest, longest=longest))
    assert parts.size == whole.size
    assert np.abs(parts - whole).max() < 1e-6


@pytest.mark.parametrize("rate_hz", [24_000, 8_000, 48_000, 44_100])
def test_a_tone_comes_out_at_its_pitch_and_level(rate_hz: int) -> None:
    out = heard_in_pieces(rate_hz, pieces(sine(rate_hz, 2.0, hz=1000.0, level=0.5), seed=1, longest=2000))
    middle = out[4000:-4000].astype(np.float64)
    at = np.arange(middle.size)
    power = abs(np.mean(middle * np.exp(-2j * np.pi * 1000.0 * at / MODEL_RATE_HZ))) * 2
    assert power == pytest.approx(0.5, rel=1e-3)
    assert np.sqrt(np.mean(middle**2)) == pytest.approx(0.5 / math.sqrt(2), rel=1e-3)


@pytest.mark.parametrize("rate_hz", [24_000, 48_000, 44_100])
def test_what_the_model_cannot_hear_is_filtered_out_instead_of_folded_down(rate_hz: int) -> None:
    out = heard_in_pieces(rate_hz, [sine(rate_hz, 1.0, hz=9_600.0, level=0.9)])
    assert np.abs(out[2000:-2000]).max() < 1e-3


def test_the_ear_agrees_with_the_librarys_own_one_shot_resampler_to_a_fraction_of_a_sample() -> None:
    samples = sine(24_000, 1.0, hz=300.0)
    ours = heard_in_pieces(24_000, pieces(samples, seed=5, longest=480))
    theirs = soxr.resample(samples, 24_000, MODEL_RATE_HZ)
    assert abs(ours.size - theirs.size) <= 1
    # 300 Hz moves by 2 pi 300 / 16000 = 0.118 rad a sample; two samples of shift change 0.5 sin by at most 0.12.
    assert np.abs(ours[1000:-1000] - theirs[1000:-1000]).max() < 0.12


def test_a_turns_end_gives_out_the_tail_and_the_next_turn_starts_clean() -> None:
    ear = Listener(MODEL_RATE_HZ)
    first = sine(8_000, 0.5)
    came = len(ear.at_model_rate(Heard(first, 8_000, None))) // 4
    tail = floats(ear.rest())
    assert came + tail.size == 8_000
    assert tail.size >= 100
    assert np.abs(tail[-200:]).max() > 0.4  # the last sound of the turn, not padding
    assert ear.rest() == b""
    after = floats(ear.at_model_rate(Heard(np.zeros(4000, np.float32), 8_000, None)))
    assert not after.any()


def test_a_cleared_input_leaves_nothing_of_itself_in_what_follows() -> None:
    ear = Listener(MODEL_RATE_HZ)
    ear.at_model_rate(Heard(sine(24_000, 0.5), 24_000, None))
    ear.reset()
    assert not floats(ear.at_model_rate(Heard(np.zeros(24_000, np.float32), 24_000, None))).any()


@pytest.mark.parametrize("between_hz", [8_000, 16_000])
def test_a_change_of_rate_begins_a_new_stream_and_forgets_the_old(between_hz: int) -> None:
    ear = Listener(MODEL_RATE_HZ)
    ear.at_model_rate(Heard(sine(24_000, 0.5), 24_000, None))
    between = ear.at_model_rate(Heard(np.zeros(between_hz, np.float32), between_hz, None))
    assert not floats(between).any()
    assert not floats(ear.at_model_rate(Heard(np.zeros(24_000, np.float32), 24_000, None))).any()
