"""``duplex-es-worker --check``: is this model fit to serve here? Loads it, speaks with it once, and times it."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import math
import time
import wave
from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np

from duplex_es.model import (
    CloseModel,
    EndTurn,
    FeedAudio,
    Generate,
    HistoryItem,
    Model,
    ModelFailed,
    ModelFinished,
    ModelHeardTurn,
    ModelListened,
    ModelProducedAudio,
    ModelProducedText,
    ModelRefused,
    ModelSession,
    ModelSpoke,
    OpenModel,
    Signal,
)

from .host import slots_of
from .plugins import make_model

PATIENCE_S = 30.0
APPEND_MS = 80
SPEECH_MS = 1200
QUESTION = "Hello, can you hear me?"


@dataclass(frozen=True, slots=True)
class Found:
    """What came of a check; times in milliseconds. ``answer_ms`` is from the end of the question to the first sound or

    word, absent where the model only listened. ``fault`` is why it did not pass.
    """

    model: str
    sessions: int
    load_ms: float
    open_ms: float | None = None
    answer_ms: float | None = None
    audio_ms: int = 0
    text: str = ""
    decision: str = ""
    fault: str | None = None

    @property
    def passed(self) -> bool:
        """Whether the model is fit to serve."""
        return self.fault is None

    def as_json(self) -> str:
        """One object on one line."""
        return json.dumps({**asdict(self), "passed": self.passed})

    def as_table(self) -> str:
        """One line for each figure."""
        rows = {
            "model": self.model,
            "sessions at a time": self.sessions,
            "loaded in": _ms(self.load_ms),
            "opened in": _ms(self.open_ms),
            "decided": self.decision or "-",
            "answered after": _ms(self.answer_ms),
            "sound": _ms(self.audio_ms),
            "words": self.text or "-",
            "result": "fit" if self.passed else f"not fit: {self.fault}",
        }
        return "\n".join(f"{name:<20}{value}" for name, value in rows.items())


class _Ear:
    """Takes the model's signals and notes what the check wants to know."""

    def __init__(self) -> None:
        self.settled = asyncio.Event()
        self.first_s: float | None = None
        self.samples = 0
        self.text = ""
        self.decision = ""
        self.fault: str | None = None

    def __call__(self, signal: Signal) -> None:
        match signal:
            case ModelSpoke():
                self.decision = "speak"
            case ModelProducedAudio(pcm=pcm, text=text):
                self._heard(len(pcm) // 2, text)
            case ModelProducedText(text=text):
                self._heard(0, text)
            case ModelFinished():
                self.settled.set()
            case ModelFailed(code=code, message=message):
                self.fault = f"{code}: {message}"
                self.settled.set()
            case ModelListened() | ModelHeardTurn() if not self.decision:
                self.decision = "listen"

    def _heard(self, samples: int, text: str) -> None:
        if self.first_s is None:
            self.first_s = time.monotonic()
        self.samples += samples
        self.text += text


async def check(name: str, options: Mapping[str, str], *, slots: int) -> Found:
    """Load the model, hold one short session in this process, and unload it.

    Fit is a model that loads, opens, and then speaks or decides to listen. Raises: as ``make_model`` does.
    """
    model = make_model(name, options)
    began_s = time.monotonic()
    try:
        await model.load()
    except Exception as error:
        return Found(name, 0, _since(began_s), fault=f"cannot be loaded: {error}")
    try:
        return await _talk(model, Found(model.info.name, slots_of(model, slots), _since(began_s)))
    finally:
        await model.unload()


async def _talk(model: Model, found: Found) -> Found:
    ear, began_s = _Ear(), time.monotonic()
    try:
        session = await asyncio.wait_for(model.open(_opening(model), ear), PATIENCE_S)
    except ModelRefused as refusal:
        return _with(found, fault=f"{refusal.code}: {refusal.message}")
    except Exception as error:
        return _with(found, fault=f"cannot be opened: {type(error).__name__}: {error}")
    found = _with(found, open_ms=_since(began_s))
    try:
        asked_s = await _ask(model, session)
        await _wait(model, session, ear)
    except Exception as error:
        ear.fault = f"{type(error).__name__}: {error}"
    finally:
        await session.perform(CloseModel())
    fault = ear.fault or (None if ear.decision else f"no decision within {PATIENCE_S:g} s")
    return _with(
        found,
        answer_ms=None if ear.first_s is None else max(0.0, (ear.first_s - asked_s) * 1000),
        audio_ms=ear.samples * 1000 // model.info.output_rate_hz,
        text=ear.text.strip(),
        decision=ear.decision,
        fault=fault,
    )


async def _ask(model: Model, session: ModelSession) -> float:
    """Put a question: typed where the model takes text, else as sound at the pace of speech; when it had been put."""
    if model.info.takes_text_turns:
        history = (HistoryItem(item_id="item_1", role="user", text=QUESTION),)
        await session.perform(Generate(epoch=0, response_id="resp_1", history=history))
        return time.monotonic()
    speech = _tone(SPEECH_MS, model.info.input_rate_hz)
    at_ms = await _feed(session, speech, model.info.input_rate_hz, 0)
    spoken_s = time.monotonic()
    if model.info.capabilities.supports_client_commit is True:
        await session.perform(EndTurn(epoch=0, item_id="item_1", respond=True))
    await _feed(session, np.zeros_like(speech).repeat(2), model.info.input_rate_hz, at_ms)
    return spoken_s


async def _wait(model: Model, session: ModelSession, ear: _Ear) -> None:
    """Until the answer is over; a model whose answer never is has passed with its first sound.

    One that might end it and did not in time has passed with what it said.
    """
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not ear.settled.is_set():
                is_endless = ear.samples and not model.info.capabilities.supports_client_commit
                if is_endless or (ear.decision == "listen" and not model.info.takes_text_turns):
                    return
                await asyncio.sleep(0.02)
    except TimeoutError:
        if ear.first_s is None:
            raise


async def _feed(session: ModelSession, samples: np.ndarray, rate_hz: int, at_ms: int) -> int:
    step = rate_hz * APPEND_MS // 1000
    for at in range(0, samples.size, step):
        at_ms += APPEND_MS
        await session.perform(FeedAudio(epoch=0, pcm=samples[at : at + step].tobytes(), end_ms=at_ms))
        await asyncio.sleep(APPEND_MS / 1000)
    return at_ms


def _opening(model: Model) -> OpenModel:
    return OpenModel(
        session_id="sess_check",
        incarnation=0,
        epoch=0,
        ref_audio=_voice(),
        extra_body={"native_duplex": True, "auto_response": True},
        overlap_policy=model.info.overlap_policy,
    )


def _tone(duration_ms: int, rate_hz: int) -> np.ndarray:
    at = np.arange(rate_hz * duration_ms // 1000, dtype=np.float64)
    return (0.3 * np.sin(math.tau * 220 * at / rate_hz)).astype("<f4")


def _voice() -> str:
    """A second of a tone: a voice for models that must be given one."""
    data = io.BytesIO()
    with wave.open(data, "wb") as wav:
        wav.setnchannels(1)
        wav.setsampwidth(2)
        wav.setframerate(16_000)
        wav.writeframes((_tone(1000, 16_000) * 32767).astype("<i2").tobytes())
    return "data:audio/wav;base64," + base64.b64encode(data.getvalue()).decode()


def _with(found: Found, **changes: object) -> Found:
    return Found(**{**asdict(found), **changes})


def _since(began_s: float) -> float:
    return (time.monotonic() - began_s) * 1000


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f} ms"
