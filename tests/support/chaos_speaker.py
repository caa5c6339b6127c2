"""A caller that asks aloud: its sentences must come back whole, whatever died while it was speaking."""

from __future__ import annotations

import asyncio
import base64
import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.support.chaos_talker import Talker, Wire

RATE_HZ = 24_000
"""The rate of the model, so that nothing on the way has to change a sample."""
PIECE_MS, PIECES = 100, 8
BYTES_PER_PIECE = RATE_HZ * 2 * PIECE_MS // 1000


class Speaker(Talker):
    """Speaks to a model that repeats what it hears: 0.8 s of noise at a time, then silence until it has come back.

    ``sentences`` is the sound of each question. Every piece of sound has an id, so that what a broken socket swallowed
    is said again, once.
    """

    def __init__(self, number: int, urls: Sequence[str], draw: random.Random, *, first: int = 0, **habits: Any) -> None:
        super().__init__(number, urls, draw, first=first, **habits)
        self.session = {"sample_rate_hz": RATE_HZ}
        self.sentences: list[bytes] = []
        self._noise = np.random.default_rng(draw.randrange(2**32))
        self._speaking: asyncio.Task[None] | None = None

    async def _ask(self) -> None:
        samples = self._noise.uniform(-0.3, 0.3, PIECES * BYTES_PER_PIECE // 2)
        self.sentences.append(np.rint(samples * 32_767).astype("<i2").tobytes())
        self.asked.append("")
        self._owed, self._open_response = True, False
        self.talking.set()
        self._speaking = asyncio.create_task(self._speak(self.sentences[-1]))
        self._watchers.add(self._speaking)
        self._speaking.add_done_callback(self._watchers.discard)

    async def _speak(self, pcm: bytes) -> None:
        for at in range(0, len(pcm), BYTES_PER_PIECE):
            await self._append(pcm[at : at + BYTES_PER_PIECE])
            await asyncio.sleep(PIECE_MS / 1000)

    async def _murmur(self) -> None:
        while True:
            await asyncio.sleep(PIECE_MS / 1000)
            if self._granted and (self._speaking is None or self._speaking.done()):
                await self._append(bytes(BYTES_PER_PIECE))

    async def _append(self, pcm: bytes) -> None:
        await self._say_once({"type": "input_audio_buffer.append", "audio": base64.b64encode(pcm).decode()})


def check_spoken(wires: Sequence[Wire], sentences: Sequence[bytes]) -> list[str]:
    """Hold every answer to the sentence it repeats: the same samples between silences. What is wrong, in words."""
    sound: dict[str, bytearray] = {}
    answers: list[bytes] = []
    wrong = []
    for wire in wires:
        match wire["type"]:
            case "response.output_audio.delta":
                sound.setdefault(wire["response_id"], bytearray()).extend(base64.b64decode(wire["delta"]))
            case "response.done":
                response = wire["response"]
                answers.append(_between_silences(bytes(sound.pop(response["id"], b""))))
                if response["status"] != "completed":
                    wrong.append(f"{response['id']} ended {response['status']}")
    if len(answers) != len(sentences):
        wrong.append(f"{len(answers)} answers to {len(sentences)} sentences")
    for number, (answer, sentence) in enumerate(zip(answers, sentences, strict=False)):
        if answer != _between_silences(sentence):
            wrong.append(f"sentence {number} came back otherwise: {len(answer) // 2} samples of {len(sentence) // 2}")
    return wrong


def _between_silences(pcm: bytes) -> bytes:
    samples = np.frombuffer(pcm, "<i2")
    (loud,) = np.nonzero(samples)
    return samples[loud[0] : loud[-1] + 1].tobytes() if len(loud) else b""
