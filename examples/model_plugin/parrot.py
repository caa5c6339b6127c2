"""A model in one file: ``parrot`` repeats each turn, twice as fast. Nothing but ``duplex_es.model`` and numpy.

    pip install ./examples/model_plugin
    duplex-es up --model parrot

The worker finds it by the entry point in ``pyproject.toml``. What a model promises stands in ``duplex_es.model``;
``duplex_es.testing.model_suite`` tests it: see ``test_parrot.py``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import numpy as np

from duplex_es.model import (
    CloseModel,
    Emit,
    EndTurn,
    FeedAudio,
    Generate,
    Interrupt,
    ModelFinished,
    ModelHeardTurn,
    ModelInfo,
    ModelListened,
    ModelProducedAudio,
    ModelProducedText,
    ModelSpoke,
    OpenModel,
    ReconfigureModel,
    Request,
    ResetInput,
)
from duplex_es.protocol.objects import Capabilities

RATE_HZ = 24_000
PIECE_SAMPLES = RATE_HZ // 10


class Parrot:
    """The model of one worker; nothing to load, so its sessions share nothing."""

    info = ModelInfo(
        name="parrot",
        capabilities=Capabilities(supports_client_commit=True, supports_playback_ack=True, supports_barge_in=True),
        input_rate_hz=RATE_HZ,
        output_rate_hz=RATE_HZ,
        transcribes=True,
        takes_text_turns=True,
    )

    def __init__(self, options: Mapping[str, str]) -> None:
        """``speed`` is how many times faster it repeats. Raises: ValueError for what is no number."""
        self.speed = float(options.get("speed", "2"))

    async def load(self) -> None:
        """Nothing to load."""

    async def unload(self) -> None:
        """Nothing to free."""

    async def open(self, request: OpenModel, emit: Emit) -> ParrotSession:
        """Begin a session."""
        return ParrotSession(request, emit, self.speed)


class ParrotSession:
    """What one caller said since the last turn, float32 in [-1, 1]; and what is being said back, piece by piece."""

    def __init__(self, request: OpenModel, emit: Emit, speed: float) -> None:
        self._emit = emit
        self._speed = speed
        self._modalities = request.modalities
        self._epoch = request.epoch
        self._heard = np.zeros(0, np.float32)
        self._turn = 0
        self._speaking: asyncio.Task[None] | None = None

    async def perform(self, request: Request) -> None:
        """Accept a request and return; what takes time goes on in a task."""
        match request:
            case FeedAudio(pcm=pcm):
                self._heard = np.append(self._heard, np.frombuffer(pcm[: len(pcm) // 4 * 4], "<f4"))
            case EndTurn():
                said, self._heard = self._heard, np.zeros(0, np.float32)
                self._emit(ModelHeardTurn(epoch=self._epoch, transcript="", item_id=request.item_id))
                if request.respond:
                    self._repeat(said)
            case Generate():
                text = next((item.text for item in reversed(request.history) if item.role == "user"), "Squawk!")
                self._say(text, request)
            case ResetInput():
                self._heard = np.zeros(0, np.float32)
            case Interrupt():
                self._fall_silent()
                self._epoch = request.epoch
            case ReconfigureModel():
                self._modalities = request.modalities
            case CloseModel():
                self._fall_silent()

    def _repeat(self, said: np.ndarray) -> None:
        if not said.size:
            self._emit(ModelListened(epoch=self._epoch))
            return
        count = int(said.size / self._speed)
        quick = np.interp(np.arange(count) * self._speed, np.arange(said.size), said)
        pcm = np.rint(np.clip(quick, -1, 1) * 32_767).astype("<i2")
        pieces = [pcm[at : at + PIECE_SAMPLES].tobytes() for at in range(0, count, PIECE_SAMPLES)]
        self._begin(None, [(piece, "" if number else "Squawk!") for number, piece in enumerate(pieces)])

    def _say(self, text: str, request: Generate) -> None:
        words = [f"{word} " for word in text.split()] or [""]
        sound = bytes(2 * PIECE_SAMPLES) if "audio" in request.modalities else b""
        self._begin(request.response_id, [(sound, word) for word in words])

    def _begin(self, response_id: str | None, pieces: list[tuple[bytes, str]]) -> None:
        self._fall_silent()
        self._speaking = asyncio.create_task(self._speak(response_id, pieces, self._epoch, self._turn))
        self._turn += 1

    async def _speak(self, response_id: str | None, pieces: list[tuple[bytes, str]], epoch: int, turn: int) -> None:
        self._emit(ModelSpoke(epoch=epoch, turn=turn, response_id=response_id))
        for pcm, text in pieces:
            if pcm:
                self._emit(ModelProducedAudio(epoch=epoch, turn=turn, pcm=pcm, text=text))
            else:
                self._emit(ModelProducedText(epoch=epoch, turn=turn, text=text))
            await asyncio.sleep(PIECE_SAMPLES / RATE_HZ / 2)  # twice as fast as it sounds
        self._emit(ModelFinished(epoch=epoch, turn=turn))

    def _fall_silent(self) -> None:
        if self._speaking is not None:
            self._speaking.cancel()


PLUGIN = Parrot
