"""Microphone and speaker, with a sound library that a test plays."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from duplex_es.client import AudioFormat
from duplex_es.client.devices import HELD_CHUNKS, DevicesMissing, Microphone, Speaker, sound_library

pytestmark = pytest.mark.unit


class Stream:
    """A device that does what the test says."""

    def __init__(self, **options: Any) -> None:
        self.options = options
        self.callback: Callable[..., None] = options["callback"]
        self.is_running = False

    def start(self) -> None:
        self.is_running = True

    def close(self) -> None:
        self.is_running = False

    def pull(self, size: int) -> bytes:
        """What a loudspeaker takes in one go."""
        out = bytearray(b"?" * size)
        self.callback(memoryview(out), size // 2, None, None)
        return bytes(out)


@pytest.fixture
def streams(monkeypatch: pytest.MonkeyPatch) -> list[Stream]:
    made: list[Stream] = []

    def make(**options: Any) -> Stream:
        made.append(Stream(**options))
        return made[-1]

    monkeypatch.setitem(sys.modules, "sounddevice", SimpleNamespace(RawInputStream=make, RawOutputStream=make))
    return made


async def test_a_microphone_hands_on_what_the_device_heard_in_its_format(streams: list[Stream]) -> None:
    async with Microphone(AudioFormat("pcm_f32le", 24_000), chunk_ms=20, device=3) as microphone:
        [stream] = streams
        assert stream.is_running
        assert (stream.options["dtype"], stream.options["samplerate"], stream.options["blocksize"]) == (
            "float32",
            24_000,
            480,
        )
        assert stream.options["device"] == 3
        stream.callback(memoryview(b"abcd"), 1, None, None)
        stream.callback(memoryview(b"efgh"), 1, None, None)
        assert [await anext(microphone), await anext(microphone)] == [b"abcd", b"efgh"]
    assert not stream.is_running


async def test_a_reader_that_is_far_behind_misses_the_oldest_chunks(streams: list[Stream]) -> None:
    async with Microphone() as microphone:
        for n in range(HELD_CHUNKS + 2):
            microphone._take(n.to_bytes(2, "little"))
        assert microphone.missed_count == 2
        assert await anext(microphone) == (2).to_bytes(2, "little")


async def test_a_speaker_plays_in_order_and_counts_only_what_the_device_took(streams: list[Stream]) -> None:
    async with Speaker(sample_rate_hz=8_000) as speaker:
        [stream] = streams
        speaker.play(b"ab" * 40)
        speaker.play(b"cd" * 40)
        assert stream.pull(120) == b"ab" * 40 + b"cd" * 20
        assert speaker.played_ms == 7.5
        assert stream.pull(120) == b"cd" * 20 + bytes(80)
        assert speaker.played_ms == 10
        speaker.begin()
        assert speaker.played_ms == 0


async def test_a_cleared_speaker_falls_silent_at_once(streams: list[Stream]) -> None:
    async with Speaker() as speaker:
        speaker.play(b"ab" * 100)
        speaker.clear()
        assert streams[0].pull(8) == bytes(8)
        assert speaker.played_ms == 0


@pytest.mark.parametrize(
    ("error", "match"),
    [(ImportError("none"), r"pip install 'duplex-es\[devices\]'"), (OSError("no lib"), "libportaudio2")],
)
def test_a_missing_library_is_named_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch, error: Exception, match: str
) -> None:
    real = builtins.__import__

    def without(name: str, *arguments: Any, **named: Any) -> Any:
        if name == "sounddevice":
            raise error
        return real(name, *arguments, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(DevicesMissing, match=match):
        sound_library()
