"""What stands in the session log: MessagePack maps that any MessagePack reader can read.

An *input record* holds what was said (a command, or what the gateway itself has to report), an *output record* what
the session decided (facts) and showed (one frame). Raw audio is never in a body: it travels beside it. Every body
carries its schema version ``v``; an older one is brought up to this build's (``upcasts``), a newer one is an error.

One decision is one or more consecutive output records: the first carries all its facts, each carries at most one
frame, and ``more`` counts down to 0, so that a reader knows when it has a decision whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from .commands import AppendAudio, Command, ResumeSession
from .errors import ProtocolError
from .frames import Frame, ResponseOutputAudioDelta
from .objects import Plain
from .upcasts import INPUT_STEPS, OUTPUT_STEPS, SchemaUnknown, Step, upcast
from .upcasts import SCHEMA_VERSION as SCHEMA_VERSION

REDACTED = "redacted"
"""What stands in a record where a secret was."""


class RecordUnreadable(Exception):
    """A stored body is not a record of a version this build knows. The log is damaged or newer than the reader."""


class Packed(NamedTuple):
    """A record ready for the log: the body, and the raw audio that goes beside it."""

    body: bytes
    audio: bytes | None


# -- what only a gateway can report --------------------------------------------------------------------------------


class Reported(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """Something in the input that no client said."""


class OpenSession(Reported, frozen=True, kw_only=True, tag="duplex_es.open_session"):
    """The session begins with these settings, as the client wrote them.

    ``updated``: they came as a ``session.update``, which is answered as one; else the session started by itself.
    ``model`` is the one the gateway chose. ``event_id`` is the client's.
    """

    session: Plain
    model: str | UnsetType = UNSET
    updated: bool = True
    event_id: str | UnsetType = UNSET
    dialect: str = "duplex"


class RefuseCommand(Reported, frozen=True, kw_only=True, tag="duplex_es.refused"):
    """A frame could not be read as a command; the session answers with this error, in order."""

    code: str
    message: str
    param: str | None = None
    event_id: str | None = None

    @classmethod
    def of(cls, error: ProtocolError) -> RefuseCommand:
        """The refusal that says what ``error`` says."""
        return cls(code=error.code, message=error.message, param=error.param, event_id=error.event_id)


class SocketAttached(Reported, frozen=True, kw_only=True, tag="duplex_es.socket_attached"):
    """A socket took the session under ``generation``, on ``gateway``, reading it in ``dialect``.

    ``traceparent`` is its place in a trace, as W3C writes it, if it has one.
    """

    generation: int
    gateway: str
    dialect: str = "duplex"
    traceparent: str | UnsetType = UNSET

    @classmethod
    def traced(cls, *, generation: int, gateway: str, dialect: str, traceparent: str) -> SocketAttached:
        """The attachment with its place in a trace, which is empty where there is none."""
        return cls(generation=generation, gateway=gateway, dialect=dialect, traceparent=traceparent or UNSET)


class SocketDetached(Reported, frozen=True, kw_only=True, tag="duplex_es.socket_detached"):
    """The socket of ``generation`` is gone."""

    generation: int
    reason: str


class ForkSession(Reported, frozen=True, kw_only=True, tag="duplex_es.forked"):
    """What stands before this was copied from ``session_id``'s life ``incarnation``, up to its frame ``seq``.

    No client has held the session since; the first one that resumes it goes on from there.
    """

    session_id: str
    incarnation: int
    seq: int


Said = Command | OpenSession | RefuseCommand | SocketAttached | SocketDetached | ForkSession
"""All that can stand in an input record."""


# -- records -------------------------------------------------------------------------------------------------------


class InputRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was said, and when the gateway heard it (Unix milliseconds)."""

    v: int = SCHEMA_VERSION
    at_ms: int
    said: Said


class OutputRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One step of one decision.

    ``facts`` are opaque here: packed maps, which only the session reads. ``consumed`` is the id of the last input
    entry this decision took in. ``more`` records of the same decision follow.
    """

    v: int = SCHEMA_VERSION
    at_ms: int
    frame: Frame | UnsetType = UNSET
    facts: list[msgspec.Raw] | UnsetType = UNSET
    consumed: str | UnsetType = UNSET
    more: int = 0


class OpeningAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What the worker answers to the opening: exactly one of the public session object and the refusal."""

    session: Plain | UnsetType = UNSET
    error: RefuseCommand | UnsetType = UNSET


_Record = TypeVar("_Record", InputRecord, OutputRecord)

_PACK = msgspec.msgpack.Encoder()
_INPUT = msgspec.msgpack.Decoder(InputRecord)
_OUTPUT = msgspec.msgpack.Decoder(OutputRecord)
_OPENING = msgspec.msgpack.Decoder(OpeningAnswer)
_REPLACED = msgspec.structs.replace


def pack_input(said: Said, at_ms: int) -> Packed:
    """The record of ``said``; the audio of an append goes beside the body. No resume token gets into a record."""
    if isinstance(said, AppendAudio):
        return Packed(_PACK.encode(InputRecord(at_ms=at_ms, said=_REPLACED(said, audio=b""))), said.audio)
    if isinstance(said, ResumeSession):
        said = _REPLACED(said, resume_token=REDACTED)
    return Packed(_PACK.encode(InputRecord(at_ms=at_ms, said=said)), None)


def unpack_input(body: bytes, audio: bytes | None = None) -> InputRecord:
    """The record ``pack_input`` made. Audio that has expired reads as empty. Raises: RecordUnreadable."""
    record = _read(_INPUT, body, INPUT_STEPS)
    if audio and isinstance(record.said, AppendAudio):
        return InputRecord(at_ms=record.at_ms, said=_REPLACED(record.said, audio=audio))
    return record


def pack_output(
    at_ms: int,
    *,
    frame: Frame | None = None,
    facts: Sequence[msgspec.Raw] = (),
    consumed: str | None = None,
    more: int = 0,
) -> Packed:
    """One output record; the audio of a delta goes beside the body."""
    audio = None
    if isinstance(frame, ResponseOutputAudioDelta):
        audio, frame = frame.delta, _REPLACED(frame, delta=b"")
    record = OutputRecord(
        at_ms=at_ms,
        frame=UNSET if frame is None else frame,
        facts=list(facts) if facts else UNSET,
        consumed=UNSET if consumed is None else consumed,
        more=more,
    )
    return Packed(_PACK.encode(record), audio)


def unpack_output(body: bytes, audio: bytes | None = None) -> OutputRecord:
    """The record ``pack_output`` made. Audio that has expired reads as empty. Raises: RecordUnreadable."""
    record = _read(_OUTPUT, body, OUTPUT_STEPS)
    if audio and isinstance(record.frame, ResponseOutputAudioDelta):
        return _REPLACED(record, frame=_REPLACED(record.frame, delta=audio))
    return record


def pack_opening(answer: OpeningAnswer) -> bytes:
    """The worker's answer, as it stands in the session's head."""
    return _PACK.encode(answer)


def unpack_opening(packed: bytes) -> OpeningAnswer:
    """The answer ``pack_opening`` packed. Raises: RecordUnreadable."""
    try:
        return _OPENING.decode(packed)
    except msgspec.MsgspecError as fault:
        raise RecordUnreadable(f"not an opening answer: {fault}") from fault


def _read(decoder: msgspec.msgpack.Decoder[_Record], body: bytes, steps: Mapping[int, Step]) -> _Record:
    """Decode, from whatever version it is; a body is known by the version it names, even if it happens to fit."""
    try:
        return decoder.decode(upcast(body, steps))
    except (msgspec.MsgspecError, RecursionError) as fault:
        raise RecordUnreadable(f"not a record: {fault}") from fault
    except SchemaUnknown as fault:
        raise RecordUnreadable(str(fault)) from fault
