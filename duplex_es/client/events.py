"""What the client hears, as thin views over the received JSON objects.

``raw`` is the whole event as it came; the properties read the fields most programs want. An unknown type arrives as a
plain ``DuplexEvent``, so that a newer server breaks nobody.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec
import pybase64

from .errors import DuplexProtocolError


def _text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) else None


@dataclass(frozen=True, slots=True)
class DuplexEvent:
    """One server event."""

    raw: dict[str, Any] = field(repr=False)
    type: str

    @property
    def event_id(self) -> str | None:
        """The event's own id; the same on every replay."""
        return _text_or_none(self.raw.get("event_id"))

    @property
    def session_id(self) -> str | None:
        """The session the event names, where it names one."""
        session = self.raw.get("session")
        nested = session.get("id") if isinstance(session, dict) else None
        return _text_or_none(self.raw.get("session_id") or nested)

    @property
    def response_id(self) -> str | None:
        """The response the event belongs to, from the top level or from its ``response``."""
        response = self.raw.get("response")
        nested = response.get("id") if isinstance(response, dict) else None
        return _text_or_none(self.raw.get("response_id") or nested)

    @property
    def item_id(self) -> str | None:
        """The conversation item the event is about."""
        return _text_or_none(self.raw.get("item_id"))

    @property
    def server_event_seq(self) -> int | None:
        """The event's place in the session, from 1; ``None`` for events that are not replayed."""
        seq = self.raw.get("server_event_seq")
        return seq if isinstance(seq, int) and not isinstance(seq, bool) else None

    @property
    def audio(self) -> bytes:
        """The decoded audio of ``delta`` or ``audio``; empty when there is none."""
        encoded = self.raw.get("delta") or self.raw.get("audio")
        return pybase64.b64decode(encoded) if isinstance(encoded, str) else b""

    @property
    def text(self) -> str:
        """The first of ``text``, ``delta`` and ``transcript`` that is there; empty when none is."""
        found = (self.raw.get(name) for name in ("text", "delta", "transcript"))
        return next((value for value in found if isinstance(value, str)), "")

    @property
    def sample_rate_hz(self) -> int | None:
        """The rate of ``audio``, where the event says it."""
        rate_hz = self.raw.get("sample_rate_hz")
        return rate_hz if isinstance(rate_hz, int) and rate_hz > 0 else None


class SessionCreated(DuplexEvent):
    """The session is open. ``incarnation`` and ``resume_token`` are there when it can be resumed."""

    __slots__ = ()

    @property
    def session(self) -> dict[str, Any]:
        """The public session object; empty on a resume, which does not repeat it."""
        session = self.raw.get("session")
        return session if isinstance(session, dict) else {}

    @property
    def resume_token(self) -> str | None:
        """What the next ``session.resume`` must show; each token is good once."""
        return _text_or_none(self.raw.get("resume_token"))

    @property
    def incarnation(self) -> int | None:
        """How often this session id had been opened before."""
        value = self.raw.get("incarnation")
        return value if isinstance(value, int) else None


class SessionResumed(SessionCreated):
    """The session goes on over a new socket; what was missed follows."""

    __slots__ = ()

    @property
    def tells_what_arrived(self) -> bool:
        """Whether the server can say which of the client's events it has."""
        return "last_client_event_id" in self.raw

    @property
    def last_client_event_id(self) -> str | None:
        """The newest client event that has arrived; ``None`` when none has, or when the server cannot tell."""
        return _text_or_none(self.raw.get("last_client_event_id"))


class SessionUpdated(DuplexEvent):
    """The session's settings as they are now."""

    __slots__ = ()

    @property
    def session(self) -> dict[str, Any]:
        """The public session object."""
        session = self.raw.get("session")
        return session if isinstance(session, dict) else {}


class SessionGoingAway(DuplexEvent):
    """This server is about to close the socket; the client then goes on at another one."""

    __slots__ = ()

    @property
    def resume_token(self) -> str | None:
        """What a resume elsewhere must show, where the server says it."""
        return _text_or_none(self.raw.get("resume_token"))


class SessionEnded(DuplexEvent):
    """Nothing follows for this client: closed, expired, or taken over by another socket."""

    __slots__ = ()

    @property
    def reason(self) -> str:
        """The server's word for why, or the event's type."""
        return _text_or_none(self.raw.get("reason")) or self.type


class SessionClosed(SessionEnded):
    """The session was closed; what a call to ``close`` waits for."""

    __slots__ = ()


class SessionExpired(SessionEnded):
    """The session's lease ran out."""

    __slots__ = ()


class SessionReplaced(SessionEnded):
    """Another socket resumed this session; this client is out of it."""

    __slots__ = ()


class ResponseCreated(DuplexEvent):
    """An assistant utterance begins."""

    __slots__ = ()


class ResponseDone(DuplexEvent):
    """An assistant utterance is over, one way or another."""

    __slots__ = ()

    @property
    def status(self) -> str | None:
        """``completed``, ``cancelled``, ``failed`` or ``incomplete``."""
        response = self.raw.get("response")
        return _text_or_none(response.get("status")) if isinstance(response, dict) else None


class AudioDelta(DuplexEvent):
    """The next piece of an answer's sound, in ``audio``."""

    __slots__ = ()


class TranscriptDelta(DuplexEvent):
    """The words of the audio delta before it, in ``text``."""

    __slots__ = ()


class TextDelta(DuplexEvent):
    """The next piece of a written answer, in ``text``."""

    __slots__ = ()


class ListenDecision(DuplexEvent):
    """The model chose to keep listening."""

    __slots__ = ()


class SpeakDecision(DuplexEvent):
    """The model chose to speak."""

    __slots__ = ()


class ConnectionResumed(DuplexEvent):
    """Made by the client itself, once per resume: a broken connection was replaced.

    ``raw`` has ``attempt``, counted from 1; ``resent``, how many events are said again because they had not arrived
    (``None`` when the server cannot tell); ``unproven``, how many are too long ago to be held, if there are any.
    """

    __slots__ = ()


class UploadProgress(DuplexEvent):
    """Made by the client itself, for ``stream_pcm(progress=True)``: how far the audio has been sent."""

    __slots__ = ()

    @property
    def sent_ms(self) -> float:
        """Audio sent so far."""
        return float(self.raw["sent_ms"])

    @property
    def total_ms(self) -> float:
        """All audio of this upload; ``sent_ms`` reaches it in the last of these events."""
        return float(self.raw["total_ms"])


class ErrorEvent(DuplexEvent):
    """The server refused something, in the nested or in the flat envelope."""

    __slots__ = ()

    def _field(self, name: str) -> str | None:
        nested = self.raw.get("error")
        found = nested.get(name) if isinstance(nested, dict) else None
        return _text_or_none(found if found is not None else self.raw.get(name))

    @property
    def code(self) -> str | None:
        """What to branch on."""
        return self._field("code")

    @property
    def message(self) -> str:
        """What to show a person."""
        flat = _text_or_none(self.raw.get("error"))
        return flat or self._field("message") or "the server gave no message"

    @property
    def related_event_id(self) -> str | None:
        """The ``event_id`` of the refused command, where the server said it."""
        nested = self.raw.get("error")
        return _text_or_none(nested.get("event_id")) if isinstance(nested, dict) else None

    @property
    def retry_after_ms(self) -> float | None:
        """When the same may be tried again, where the server said it."""
        nested = self.raw.get("error")
        found = nested.get("retry_after_ms") if isinstance(nested, dict) else None
        value = found if found is not None else self.raw.get("retry_after_ms")
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None

    def to_exception(self) -> DuplexProtocolError:
        """The exception that an awaiting call raises for this event."""
        return DuplexProtocolError(
            self.message,
            code=self.code,
            event_id=self.related_event_id,
            retry_after_ms=self.retry_after_ms,
            raw=self.raw,
        )


CLASSES: dict[str, type[DuplexEvent]] = {
    "session.created": SessionCreated,
    "session.resumed": SessionResumed,
    "session.updated": SessionUpdated,
    "session.going_away": SessionGoingAway,
    "session.closed": SessionClosed,
    "session.expired": SessionExpired,
    "session.replaced": SessionReplaced,
    "response.created": ResponseCreated,
    "response.done": ResponseDone,
    "response.output_audio.delta": AudioDelta,
    "response.output_audio_transcript.delta": TranscriptDelta,
    "response.output_text.delta": TextDelta,
    "response.text.delta": TextDelta,
    "response.listen": ListenDecision,
    "response.speak": SpeakDecision,
    "connection.resumed": ConnectionResumed,
    "upload.progress": UploadProgress,
    "error": ErrorEvent,
}


def view(raw: dict[str, Any]) -> DuplexEvent:
    """The event of this JSON object; ``type`` must be in it."""
    return CLASSES.get(raw["type"], DuplexEvent)(raw=raw, type=raw["type"])


def parse_event(message: str | bytes) -> DuplexEvent | None:
    """The event in a text frame; ``None`` for binary frames and for anything that is not an event."""
    if not isinstance(message, str):
        return None
    try:
        raw = msgspec.json.decode(message)
    except msgspec.DecodeError:
        return None
    return view(raw) if isinstance(raw, dict) and isinstance(raw.get("type"), str) else None
