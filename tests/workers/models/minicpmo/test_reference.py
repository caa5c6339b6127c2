"""The client's voice: where it may come from, and how the model gets it."""

from __future__ import annotations

import base64
import io
import wave
from pathlib import Path

import numpy as np
import pytest

from duplex_es.model import ModelRefused, OpenModel
from workers.models.minicpmo.reference import heard_voice, is_allowed, reference

pytestmark = pytest.mark.unit


def wav(samples: int, rate_hz: int = 16_000, channels: int = 1) -> bytes:
    data = io.BytesIO()
    with wave.open(data, "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(2)
        file.setframerate(rate_hz)
        file.writeframes(np.full(samples * channels, 8192, "<i2").tobytes())
    return data.getvalue()


def opening(**fields: object) -> OpenModel:
    return OpenModel(session_id="s", incarnation=0, epoch=0, **fields)  # type: ignore[arg-type]


def url(data: bytes) -> str:
    return "data:audio/wav;base64," + base64.b64encode(data).decode()


@pytest.mark.parametrize(
    ("samples", "rate_hz", "channels", "left"),
    [
        (8_800, 16_000, 1, 8_000),
        (24_000, 24_000, 1, 16_000),
        (4_410, 44_100, 2, 1_600),
        (8_000 * 90, 8_000, 1, 960_000),
    ],
)
def test_a_voice_becomes_mono_at_16_khz_in_whole_tenths(samples: int, rate_hz: int, channels: int, left: int) -> None:
    voice = heard_voice(wav(samples, rate_hz, channels))
    assert voice.dtype == np.float32 and voice.size == left
    assert voice[left // 2] == pytest.approx(0.25, abs=0.01)


@pytest.mark.parametrize("data", [b"", b"RIFF", wav(1_599)])
def test_what_is_no_voice_is_refused(data: bytes) -> None:
    with pytest.raises(ModelRefused) as refused:
        heard_voice(data)
    assert refused.value.param == "session.ref_audio"


@pytest.mark.parametrize("key", ["ref_audio", "tts_ref_audio"])
async def test_a_voice_may_be_named_in_the_extra_body(key: str) -> None:
    assert (await reference(opening(extra_body={key: url(wav(1_600))}), ())).size == 1_600


async def test_the_sessions_own_field_comes_first() -> None:
    both = opening(ref_audio=url(wav(1_600)), extra_body={"ref_audio": url(wav(3_200))})
    assert (await reference(both, ())).size == 1_600


async def test_no_voice_is_no_sound() -> None:
    assert (await reference(opening(), ())).size == 0


async def test_a_file_is_read_only_where_the_operator_allows_it(tmp_path: Path) -> None:
    (tmp_path / "voice.wav").write_bytes(wav(1_600))
    named = opening(ref_audio=f"file://{tmp_path}/voice.wav")
    assert (await reference(named, (f"file://{tmp_path}/",))).size == 1_600
    with pytest.raises(ModelRefused):
        await reference(named, ())
    with pytest.raises(ModelRefused):
        await reference(opening(ref_audio=f"file://{tmp_path}/other.wav"), (f"file://{tmp_path}/",))


@pytest.mark.parametrize(
    ("address", "allowed"),
    [
        ("https://voices.example/a.wav", True),
        ("https://voices.example/deep/a.wav", True),
        ("https://voices.example/../secret", False),
        ("https://voices.example/%2e%2e/secret", False),
        ("https://voices.example.evil.example/a.wav", False),
        ("https://me@voices.example/a.wav", False),
        ("http://voices.example/a.wav", False),
        ("file:///etc/passwd", False),
    ],
)
def test_only_what_lies_below_a_prefix_is_allowed(address: str, allowed: bool) -> None:
    assert is_allowed(address, ("https://voices.example/",)) is allowed


@pytest.mark.parametrize("text", ["data:audio/wav,abc", "data:audio/wav;base64,***", "voice.wav"])
async def test_what_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(ModelRefused):
        await reference(opening(ref_audio=text), ())
