"""Where the time went between the caller's last word and the first sound of the answer.

The client's arrival times and the times in the log's records are read off clocks of the same machine; across machines
only ``Latency.heard_ms`` means anything.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .conversation import SPEECH_STOPPED, Conversation
from .records import InputLine, Line, OutputLine


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds. ``None`` where the events or records needed are not there.

    ``heard_ms``: last word to first sound, all of it. ``endpoint_ms``: last word to the decision that the turn is
    over. ``answer_ms``: that decision to the first sound; of it ``model_ms`` was the model's, and ``service_ms`` the
    rest of the way from the caller to the log and from the log to the caller, for this answer's first sound.
    """

    heard_ms: float | None = None
    endpoint_ms: float | None = None
    answer_ms: float | None = None
    model_ms: float | None = None
    service_ms: float | None = None

    def rows(self) -> list[tuple[str, str]]:
        """The table a person reads."""
        return [
            ("caller's last word -> end of turn decided", _words(self.endpoint_ms)),
            ("end of turn -> first sound of the answer", _words(self.answer_ms)),
            ("   of it the model (recognise, reply, speak)", _words(self.model_ms)),
            ("   and the service (sockets, log, decisions)", _words(self.service_ms)),
            ("caller's last word -> first sound, all in all", _words(self.heard_ms)),
        ]


def measure(conversation: Conversation, log: Iterable[Line] = ()) -> Latency:
    """The latencies of a conversation's answer; with the session's log also whose they were."""
    answer = conversation.answer
    if answer is None or answer.first_audio is None:
        return Latency()
    first_sound_s, spoken_s = answer.first_audio.at_s, conversation.speech_end_s
    stopped = conversation.first(SPEECH_STOPPED, after_s=spoken_s)
    heard_ms = (first_sound_s - spoken_s) * 1000
    if stopped is None:
        return Latency(heard_ms=heard_ms)
    endpoint_ms, answer_ms = (stopped.at_s - spoken_s) * 1000, (first_sound_s - stopped.at_s) * 1000
    lines = list(log)
    decided_ms = _recorded_ms(lines, stopped.event.server_event_seq)
    produced_ms = _recorded_ms(lines, answer.first_audio.event.server_event_seq)
    if decided_ms is None or produced_ms is None:
        return Latency(heard_ms=heard_ms, endpoint_ms=endpoint_ms, answer_ms=answer_ms)
    return Latency(
        heard_ms=heard_ms,
        endpoint_ms=endpoint_ms,
        answer_ms=answer_ms,
        model_ms=produced_ms - decided_ms,
        service_ms=_uplink_ms(lines, conversation) + first_sound_s * 1000 - produced_ms,
    )


def _recorded_ms(lines: list[Line], seq: int | None) -> int | None:
    found = (line.at_ms for line in lines if isinstance(line, OutputLine) and line.seq == seq)
    return next(found, None)


def _uplink_ms(lines: list[Line], conversation: Conversation) -> float:
    """How long the caller's last word took into the log; 0 when no append says where it ends."""
    appends = [line for line in lines if isinstance(line, InputLine) and line.audio_end_ms is not None]
    if not appends:
        return 0.0
    # The stream began where its first append did; every later one was due when its audio was complete.
    ends = [(line.audio_end_ms or 0, line.at_ms) for line in appends]
    began_ms = conversation.stream_start_s * 1000
    last_word_ms = conversation.speech_end_s * 1000 - began_ms
    end_ms, at_ms = next(((end, at) for end, at in ends if end >= last_word_ms), ends[-1])
    return max(0.0, at_ms - (began_ms + end_ms))


def _words(value_ms: float | None) -> str:
    return "not known" if value_ms is None else f"{value_ms:6.0f} ms"
