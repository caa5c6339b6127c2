"""The 21 things a client can say, each with its wire name as tag, and the aliases that fold into them.

Structs are as the codec leaves them: aliases and alternative field names folded, audio decoded to bytes, milliseconds
whole. What a field means for the session is the session's business; only its type and range are checked here.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, UnsetType

from .objects import Count, Item, Ms, Plain

RateHz = Annotated[int, msgspec.Meta(ge=8_000, le=192_000)]
"""A declared sample rate."""
Name = Annotated[str, msgspec.Meta(min_length=1)]
"""A non-empty string."""
Number = int | float


class ClientEvent(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """What every command has: ``event_id``, the client's own name for it, echoed when it is rejected."""

    event_id: str | UnsetType = UNSET


# -- session -------------------------------------------------------------------------------------------------------


class UpdateSession(ClientEvent, frozen=True, kw_only=True, tag="session.update"):
    """Open the session, or change its settings. ``session`` is what the client wrote: read it with ``read_config``."""

    session: Plain


class Heartbeat(ClientEvent, frozen=True, kw_only=True, tag="session.heartbeat"):
    """Keep the session's lease alive."""


class AcknowledgeEvents(ClientEvent, frozen=True, kw_only=True, tag="session.event_ack"):
    """Every frame up to ``server_event_seq`` has arrived and need not be kept for a replay."""

    server_event_seq: Count


class CloseSession(ClientEvent, frozen=True, kw_only=True, tag="session.close"):
    """End the session; the only clean end there is."""


class ResumeSession(ClientEvent, frozen=True, kw_only=True, tag="session.resume"):
    """Take up a live session on this socket, and hear every frame after ``last_received_server_event_seq``.

    ``incarnation`` may be missing: the token then speaks for the current one. Carries a secret, which never enters a
    record.
    """

    session_id: Name
    incarnation: Count | UnsetType = UNSET
    resume_token: Name
    last_received_server_event_seq: Count | UnsetType = UNSET

    @property
    def after_seq(self) -> int:
        """The last frame the client has; 0 when it did not say."""
        seq = self.last_received_server_event_seq
        return 0 if seq is UNSET else seq


# -- input ---------------------------------------------------------------------------------------------------------


class VadHints(msgspec.Struct, frozen=True, kw_only=True):
    """A client's own voice detection on one append."""

    is_speech: bool | UnsetType = UNSET
    speech_probability: Number | UnsetType = UNSET
    speech_active: bool | UnsetType = UNSET
    speech_started: bool | UnsetType = UNSET
    speech_stopped: bool | UnsetType = UNSET
    silence_rms: Number | UnsetType = UNSET
    backend: str | UnsetType = UNSET


class TextHints(msgspec.Struct, frozen=True, kw_only=True):
    """What the client believes was said on one append."""

    transcript: str | UnsetType = UNSET
    text: str | UnsetType = UNSET


class AppendAudio(ClientEvent, frozen=True, kw_only=True, tag="input_audio_buffer.append"):
    """The next piece of caller audio, undecoded beyond base64: ``audio`` is in the declared format.

    ``duration_ms`` is of this piece, ``audio_start_ms`` and ``audio_end_ms`` are on the client's own clock.
    ``video_frames`` are bare base64 JPEG or PNG images, at most two that are not null.
    """

    audio: bytes
    format: str | Plain | UnsetType = UNSET
    input_audio_format: str | Plain | UnsetType = UNSET
    sample_rate_hz: RateHz | UnsetType = UNSET
    channels: Count | UnsetType = UNSET
    duration_ms: Ms | UnsetType = UNSET
    audio_start_ms: Ms | UnsetType = UNSET
    audio_end_ms: Ms | UnsetType = UNSET
    is_speech: bool | UnsetType = UNSET
    speech_probability: Number | UnsetType = UNSET
    vad: VadHints | UnsetType = UNSET
    overlap_silence_rms: Number | UnsetType = UNSET
    overlap_action: str | UnsetType = UNSET
    force_barge_in: bool | UnsetType = UNSET
    force_listen: bool | UnsetType = UNSET
    text: str | UnsetType = UNSET
    transcript: str | UnsetType = UNSET
    hints: TextHints | UnsetType = UNSET
    video_frames: list[str | None] | UnsetType = UNSET
    max_slice_nums: int | UnsetType | None = UNSET

    @property
    def declared_format(self) -> str | Plain | None:
        """The format this piece names, ``None`` when the session's holds."""
        for value in (self.format, self.input_audio_format):
            if value is not UNSET:
                return value
        return None

    @property
    def transcript_hint(self) -> str:
        """What the client says was said, or ``""``."""
        hints = () if self.hints is UNSET else (self.hints.transcript, self.hints.text)
        return next((value for value in (self.transcript, self.text, *hints) if value is not UNSET and value), "")

    @property
    def speech_verdict(self) -> bool | None:
        """The client's own verdict on this piece, ``None`` when it gave none (a probability of 0.5 is speech)."""
        if self.is_speech is not UNSET:
            return self.is_speech
        if self.vad is not UNSET:
            if self.vad.is_speech is not UNSET:
                return self.vad.is_speech
            if self.vad.speech_probability is not UNSET:
                return self.vad.speech_probability >= 0.5
        return None if self.speech_probability is UNSET else self.speech_probability >= 0.5


class CommitInput(ClientEvent, frozen=True, kw_only=True, tag="input_audio_buffer.commit"):
    """Seal the buffered utterance into a user item. ``is_speech=False`` declares it silence; ``final`` says nothing."""

    final: bool | UnsetType = UNSET
    response_create: bool | UnsetType = UNSET
    is_speech: bool | UnsetType = UNSET
    audio_end_ms: Ms | UnsetType = UNSET


class CommitTurn(ClientEvent, frozen=True, kw_only=True, tag="input.commit"):
    """As ``CommitInput``, but asks for a response unless it says otherwise, and may seal an empty buffer."""

    final: bool | UnsetType = UNSET
    response_create: bool | UnsetType = UNSET
    is_speech: bool | UnsetType = UNSET
    audio_end_ms: Ms | UnsetType = UNSET


class ClearInput(ClientEvent, frozen=True, kw_only=True, tag="input_audio_buffer.clear"):
    """Drop caller audio that no item holds yet. Touches no response and no epoch."""


class CancelInput(ClientEvent, frozen=True, kw_only=True, tag="input.cancel"):
    """Drop pending input and any active response; advances the epoch."""


class AppendText(ClientEvent, frozen=True, kw_only=True, tag="input.text.append"):
    """Add text to the open input item."""

    text: str


# -- conversation --------------------------------------------------------------------------------------------------


class CreateItem(ClientEvent, frozen=True, kw_only=True, tag="conversation.item.create"):
    """Put an item into the conversation. Never starts a response by itself."""

    item: Item
    previous_item_id: str | UnsetType | None = UNSET


class RetrieveItem(ClientEvent, frozen=True, kw_only=True, tag="conversation.item.retrieve"):
    """Ask for a stored item. ``item_id`` may be missing: that is the session's to refuse."""

    item_id: str | UnsetType = UNSET


class DeleteItem(ClientEvent, frozen=True, kw_only=True, tag="conversation.item.delete"):
    """Remove a stored item."""

    item_id: str | UnsetType = UNSET


class TruncateItem(ClientEvent, frozen=True, kw_only=True, tag="conversation.item.truncate"):
    """Cut an answer to what was heard up to ``audio_end_ms`` of its sound. Never undone."""

    item_id: str | UnsetType = UNSET
    content_index: int | UnsetType = UNSET
    audio_end_ms: Ms | UnsetType = UNSET


# -- responses -----------------------------------------------------------------------------------------------------


class CreateResponse(ClientEvent, frozen=True, kw_only=True, tag="response.create"):
    """Ask for an answer now. ``response`` is what the client wrote: read it with ``read_response_options``."""

    response: Plain | UnsetType = UNSET


class CancelResponse(ClientEvent, frozen=True, kw_only=True, tag="response.cancel"):
    """Stop the active or the named response; advances the epoch."""

    response_id: str | UnsetType = UNSET


class ClearOutput(ClientEvent, frozen=True, kw_only=True, tag="output_audio_buffer.clear"):
    """Discard output that was not heard; advances the epoch only if there was any."""

    response_id: str | UnsetType = UNSET


class BargeIn(ClientEvent, frozen=True, kw_only=True, tag="barge_in"):
    """Interrupt, hard."""


class SignalTurn(ClientEvent, frozen=True, kw_only=True, tag="turn.signal"):
    """A turn-taking signal from outside. ``input.cancel``, ``response.cancel`` and ``barge_in`` mean these commands."""

    event: Name
    payload: Plain | UnsetType = UNSET
    response_id: str | UnsetType = UNSET

    @property
    def named_response_id(self) -> str | None:
        """The response it names: the field of the event, else of its payload."""
        if self.response_id is not UNSET:
            return self.response_id
        named = None if self.payload is UNSET else self.payload.get("response_id")
        return named if isinstance(named, str) else None


# -- playback ------------------------------------------------------------------------------------------------------


class AcknowledgePlayback(ClientEvent, frozen=True, kw_only=True, tag="playback.ack"):
    """How far the client has played, cumulative from the response's first sample.

    ``truncate`` makes it a hard cut: nothing beyond can count as heard later.
    """

    played_ms: Ms | UnsetType = UNSET
    committed_ms: Ms | UnsetType = UNSET
    response_id: str | UnsetType = UNSET
    item_id: str | UnsetType = UNSET
    truncate: bool | UnsetType = UNSET


Command = (
    UpdateSession
    | Heartbeat
    | AcknowledgeEvents
    | CloseSession
    | ResumeSession
    | AppendAudio
    | CommitInput
    | CommitTurn
    | ClearInput
    | CancelInput
    | AppendText
    | CreateItem
    | RetrieveItem
    | DeleteItem
    | TruncateItem
    | CreateResponse
    | CancelResponse
    | ClearOutput
    | BargeIn
    | SignalTurn
    | AcknowledgePlayback
)

COMMANDS: dict[str, type[Command]] = {
    str(struct.__struct_config__.tag): struct
    for struct in (
        UpdateSession,
        Heartbeat,
        AcknowledgeEvents,
        CloseSession,
        ResumeSession,
        AppendAudio,
        CommitInput,
        CommitTurn,
        ClearInput,
        CancelInput,
        AppendText,
        CreateItem,
        RetrieveItem,
        DeleteItem,
        TruncateItem,
        CreateResponse,
        CancelResponse,
        ClearOutput,
        BargeIn,
        SignalTurn,
        AcknowledgePlayback,
    )
}
"""Wire name → command, in the order of the catalogue."""

ALIASES: dict[str, str] = {
    "push_chunk": "input_audio_buffer.append",
    "input.audio.append": "input_audio_buffer.append",
    "input_text.append": "input.text.append",
    "push_text": "input.text.append",
    "signal_turn": "turn.signal",
    "audio.playback_ack": "playback.ack",
    "close": "session.close",
    "close_session": "session.close",
    "session_close": "session.close",
}
"""Other names a command may come under → its wire name."""
