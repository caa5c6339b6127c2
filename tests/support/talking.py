"""A raw caller: the ``websockets`` library, JSON, and nothing that hides a byte."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import websockets
from websockets.asyncio.client import ClientConnection

from duplex_es.protocol import read_wav

QUESTION = Path(__file__).parents[2] / "examples" / "audio" / "question.wav"
CHUNK_MS = 100


def question_pcm() -> bytes:
    """The recorded question, 16 kHz PCM16."""
    sound, channels, data = read_wav(QUESTION.read_bytes())
    assert (sound.sample_rate_hz, channels) == (16_000, 1)
    return data


class Caller:
    """One socket and everything it heard, in order."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.heard: list[dict[str, Any]] = []

    async def say(self, **event: Any) -> None:
        """Send one event."""
        await self.socket.send(json.dumps(event))

    async def hear(self) -> dict[str, Any]:
        """The next frame. Raises: AssertionError with the last frames when the socket was closed instead."""
        try:
            frame: dict[str, Any] = json.loads(await self.socket.recv())
        except websockets.ConnectionClosed as closed:
            raise AssertionError(f"{closed} after {self.heard[-3:]}") from closed
        self.heard.append(frame)
        return frame

    async def hear_until(
        self, kind: str, *, where: Callable[[dict[str, Any]], bool] = lambda frame: True, timeout_s: float = 60.0
    ) -> dict[str, Any]:
        """The next frame of this type that fits; every frame on the way is kept in ``heard``."""
        async with asyncio.timeout(timeout_s):
            while True:
                frame = await self.hear()
                if frame["type"] == kind and where(frame):
                    return frame

    async def play(self, pcm: bytes, *, rate_hz: int = 16_000, silence_ms: int = 0, realtime: bool = True) -> None:
        """Append ``pcm`` as a microphone would, then ``silence_ms`` of silence."""
        size = rate_hz * CHUNK_MS // 1000 * 2
        pcm += bytes(rate_hz * silence_ms // 1000 * 2)
        clock = asyncio.get_running_loop()
        began = clock.time()
        for number, at in enumerate(range(0, len(pcm), size)):
            audio = base64.b64encode(pcm[at : at + size]).decode()
            await self.say(type="input_audio_buffer.append", audio=audio)
            if realtime:
                await asyncio.sleep(max(0.0, began + (number + 1) * CHUNK_MS / 1000 - clock.time()))

    @property
    def answer_pcm(self) -> bytes:
        """All answer audio heard so far."""
        deltas = (frame for frame in self.heard if frame["type"] == "response.output_audio.delta")
        return b"".join(base64.b64decode(frame["delta"]) for frame in deltas)

    @property
    def seqs(self) -> list[int]:
        """Every ``server_event_seq`` heard, in order."""
        return [frame["server_event_seq"] for frame in self.heard if "server_event_seq" in frame]


@asynccontextmanager
async def calling(url: str, *, query: str = "") -> AsyncIterator[Caller]:
    """A socket to ``url``; nothing is said yet."""
    async with websockets.connect(f"{url}{query}", max_size=None) as socket:
        yield Caller(socket)


@asynccontextmanager
async def conversing(url: str, *, model: str, **session: Any) -> AsyncIterator[Caller]:
    """A call that is open: ``session.created`` and ``session.updated`` were heard. Hangs up at the end, so that the

    slot is free again; a call whose socket was cut is left to be resumed.
    """
    async with calling(url, query="?autostart=0") as caller:
        await caller.say(type="session.update", session={"model": model, **session})
        await caller.hear_until("session.updated")
        yield caller
        with suppress(websockets.ConnectionClosed):
            await caller.say(type="session.close")
            async for frame in caller.socket:
                caller.heard.append(json.loads(frame))


def loudness(pcm: bytes) -> float:
    """Root mean square of PCM16 in [0, 1]."""
    samples = np.frombuffer(pcm, dtype="<i2").astype(np.float64) / 32768
    return float(np.sqrt(np.mean(samples**2))) if samples.size else 0.0
