"""Who appears in the session tests: five models, and short ways to say what callers and models say."""

from __future__ import annotations

from typing import Any

from duplex_es.model import (
    ModelFinished,
    ModelHeardTurn,
    ModelInfo,
    ModelProducedAudio,
    ModelSpoke,
)
from duplex_es.protocol import (
    AppendAudio,
    Capabilities,
    ContentPart,
    CreateItem,
    Item,
    answer_item_id,
    mint_item_id,
    mint_response_id,
)
from duplex_es.session.inputs import AudioArrived, Input, VadVerdict
from duplex_es.testing.scenario import Scenario, opened

PATIENT = ModelInfo(
    name="patient",
    capabilities=Capabilities(supports_barge_in=True, supports_audio_truncate=True),
    takes_text_turns=True,
)
"""Waits for the client to commit; can do everything else."""

EAGER = ModelInfo(
    name="eager",
    capabilities=Capabilities(supports_barge_in=True, supports_audio_truncate=True),
    transcribes=True,
    takes_text_turns=True,
    takes_response_options=True,
    ends_turns=True,
    auto_response=True,
    overlap_policy="barge_in_on_speech",
)
"""Ends turns, transcribes and answers by itself."""

PLAIN = ModelInfo(name="plain", capabilities=Capabilities(supports_session_resume=False))
"""Can neither be interrupted, nor truncated, nor resumed, and hears only audio."""

TURN_BASED = ModelInfo(
    name="turns",
    capabilities=Capabilities(implementation_level="serving_session_adapter", supports_barge_in=True),
    takes_text_turns=True,
    takes_response_options=True,
    keeps_audio=True,
)
"""Does not listen while it speaks, and answers one request after the other."""

NATIVE = ModelInfo(
    name="native",
    capabilities=Capabilities(supports_barge_in=True, supports_audio_truncate=True),
    transcribes=True,
    takes_text_turns=True,
    auto_response=True,
)
"""Speaks when it likes to, and leaves it to the session what speech over its answers means."""

FAN_OUT = [
    "conversation.item.added",
    "conversation.item.created",
    "input_audio_buffer.committed",
    "conversation.item.input_audio_transcription.completed",
    "conversation.item.done",
]
"""What a client hears of one committed turn whose words are known."""

HZ = 24_000


def patient(**session: Any) -> Scenario:
    """A fresh session of the model that waits."""
    return opened(PATIENT, session)


def eager(**session: Any) -> Scenario:
    """A fresh session of the model that decides by itself."""
    return opened(EAGER, session)


def plain(**session: Any) -> Scenario:
    """A fresh session of the model that can do little."""
    return opened(PLAIN, session)


def native(**session: Any) -> Scenario:
    """A fresh session of the model that speaks when it likes to."""
    return opened(NATIVE, session)


def chat(**session: Any) -> Scenario:
    """A fresh session of the turn-based model."""
    return opened(TURN_BASED, session)


def response_id(number: int = 1) -> str:
    """The id of the session's ``number``-th response."""
    return mint_response_id("s1", 0, number)


def answer_id(number: int = 1) -> str:
    """The id of the item of the session's ``number``-th response."""
    return answer_item_id(response_id(number))


def item_id(number: int = 1) -> str:
    """The id of the session's ``number``-th item that is not an answer."""
    return mint_item_id("s1", 0, number)


def append(ms: int = 200, *, rms: float | None = 0.1, **fields: Any) -> AudioArrived:
    """Caller audio, 16 kHz PCM16, loud unless said otherwise."""
    fields.setdefault("audio", bytes(32 * ms))
    return AudioArrived(command=AppendAudio(**fields), rms=rms)


def silence(ms: int = 200, **fields: Any) -> AudioArrived:
    """Caller audio that nobody could hear anything in."""
    return append(ms, rms=0.0, **fields)


def detected(
    ms: int = 200, *, started: bool = False, stopped: bool = False, active: bool = True, **fields: Any
) -> AudioArrived:
    """Caller audio with a detector's verdict: by default in the middle of an utterance."""
    at = {name: fields.pop(name) for name in ("start_ms", "end_ms") if name in fields}
    vad = VadVerdict(
        is_speech=active,
        speech_active=active and not stopped,
        speech_started=started,
        speech_stopped=stopped,
        probability=0.9 if active else 0.1,
        **at,
    )
    fields.setdefault("audio", bytes(32 * ms))
    return AudioArrived(command=AppendAudio(**fields), rms=0.1, vad=vad)


def heard(transcript: str, *, item: str | None = None, epoch: int = 0) -> ModelHeardTurn:
    """What the model understood."""
    return ModelHeardTurn(epoch=epoch, transcript=transcript, item_id=item)


def typed(text: str, **fields: Any) -> CreateItem:
    """A written user message."""
    content = [ContentPart(type="input_text", text=text)]
    place = {"previous_item_id": fields.pop("previous_item_id")} if "previous_item_id" in fields else {}
    item = Item(type="message", role=fields.pop("role", "user"), content=content, **fields)
    return CreateItem(item=item, event_id="evt_item", **place)


def spoke(turn: int = 0, *, epoch: int = 0, **fields: Any) -> ModelSpoke:
    """The model begins to speak."""
    return ModelSpoke(epoch=epoch, turn=turn, **fields)


def said(text: str = "", ms: int = 1000, *, turn: int = 0, epoch: int = 0) -> ModelProducedAudio:
    """A piece of the model's speech."""
    return ModelProducedAudio(epoch=epoch, turn=turn, pcm=bytes(2 * HZ * ms // 1000), text=text)


def finished(turn: int = 0, *, epoch: int = 0, **tokens: int) -> ModelFinished:
    """The model has said it all."""
    return ModelFinished(epoch=epoch, turn=turn, **tokens)


def answer(*pieces: str, turn: int = 0, epoch: int = 0, ms: int = 1000) -> tuple[Input, ...]:
    """A whole spoken answer, one second a piece."""
    return (
        spoke(turn, epoch=epoch),
        *(said(piece, ms, turn=turn, epoch=epoch) for piece in pieces),
        finished(turn, epoch=epoch),
    )


def names(scenario: Scenario) -> list[str]:
    """The wire names of what the client heard last."""
    return [str(frame.__struct_config__.tag) for frame in scenario.frames]
