"""This machine's microphone and loudspeaker, through ``sounddevice``: ``pip install 'duplex-es[devices]'``."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any, Self

from .audio import AudioFormat

SAMPLE_TYPES = {"pcm16": "int16", "pcm_f32le": "float32"}
DEFAULT_RATE_HZ = 24_000
HELD_CHUNKS = 256


class DevicesMissing(ImportError):
    """``sounddevice``, or the PortAudio library behind it, is not installed."""


def sound_library() -> Any:
    """The ``sounddevice`` module. Raises: DevicesMissing, in words a user can act on."""
    try:
        import sounddevice
    except ImportError as error:
        raise DevicesMissing("microphone and speaker need sounddevice: pip install 'duplex-es[devices]'") from error
    except OSError as error:
        raise DevicesMissing(f"sounddevice finds no PortAudio ({error}): apt-get install libportaudio2") from error
    return sounddevice


class Microphone:
    """What the microphone hears, as an async context manager and iterator of chunks in ``audio``'s format.

    A reader more than ``HELD_CHUNKS`` behind misses the oldest ones, counted in ``missed_count``. Entering raises
    DevicesMissing.
    """

    def __init__(
        self, audio: AudioFormat | None = None, *, chunk_ms: float = 40, device: int | str | None = None
    ) -> None:
        self.audio = audio or AudioFormat()
        self.missed_count = 0
        self._frames = max(1, self.audio.byte_count(chunk_ms) // self.audio.bytes_per_sample)
        self._device = device
        self._stream: Any = None
        self._chunks: asyncio.Queue[bytes] = asyncio.Queue(HELD_CHUNKS)

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()

        def heard(data: Any, frames: int, time: Any, status: Any) -> None:
            # Called from PortAudio's own thread.
            loop.call_soon_threadsafe(self._take, bytes(data))

        self._stream = sound_library().RawInputStream(
            samplerate=self.audio.sample_rate_hz,
            blocksize=self._frames,
            channels=1,
            dtype=SAMPLE_TYPES[self.audio.encoding],
            device=self._device,
            callback=heard,
        )
        self._stream.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stream.close()

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        return await self._chunks.get()

    def _take(self, chunk: bytes) -> None:
        if self._chunks.full():
            self._chunks.get_nowait()
            self.missed_count += 1
        self._chunks.put_nowait(chunk)


class Speaker:
    """Plays mono PCM16, as an async context manager. Entering raises DevicesMissing.

    ``play`` never waits; ``played_ms`` is how much of it the device has taken, the number for ``ack_playback``.
    """

    def __init__(self, *, sample_rate_hz: int = DEFAULT_RATE_HZ, device: int | str | None = None) -> None:
        self.audio = AudioFormat("pcm16", sample_rate_hz)
        self._device = device
        self._stream: Any = None
        self._lock = threading.Lock()
        self._queued = bytearray()
        self._played_bytes = 0

    async def __aenter__(self) -> Self:
        self._stream = sound_library().RawOutputStream(
            samplerate=self.audio.sample_rate_hz,
            channels=1,
            dtype=SAMPLE_TYPES["pcm16"],
            device=self._device,
            callback=self._fill,
        )
        self._stream.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stream.close()

    @property
    def played_ms(self) -> float:
        """What was played since the last ``begin``."""
        return self.audio.duration_ms(self._played_bytes)

    def begin(self) -> None:
        """Count ``played_ms`` from 0: another response begins."""
        with self._lock:
            self._played_bytes = 0

    def play(self, pcm: bytes) -> None:
        """Play ``pcm`` after what is queued already."""
        with self._lock:
            self._queued += pcm

    def clear(self) -> None:
        """Fall silent: drop what was not played yet."""
        with self._lock:
            self._queued.clear()

    def _fill(self, out: Any, frames: int, time: Any, status: Any) -> None:
        size = len(out)
        with self._lock:
            piece = bytes(self._queued[:size])
            del self._queued[:size]
            self._played_bytes += len(piece)
        out[:] = piece + bytes(size - len(piece))
