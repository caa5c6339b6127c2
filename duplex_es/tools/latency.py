"""Where the time went between the caller's last word and the first sound of the answer.

The client's arrival times and the times in the log's records are read off clocks of the same machine; across machines
only ``Latency.heard_ms`` means anything.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..reading.records import InputLine, Line, OutputLine
from .conversation import SPEECH_STOPPED, Conversation


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds. ``None`` where the events or records needed are not there.

    ``heard_ms``: last word to first sound, all of it; ``endpoint_ms`` up to the decision that the turn is over and
    ``answer_ms`` from there make it up. ``up_ms`` is the service's part of the first, the last word's way into the log;
    ``down_ms`` its part of the second, the first sound's way from the worker's decision to the caller. The rest of the
    second is ``model_ms``.
    """

    heard_ms: float | None = None
    endpoint_ms: float | None = None
    answer_ms: float | None = None
    up_ms: float | None = None
    model_ms: float | None = None
    down_ms: float | None = None

    def rows(self) -> list[tuple[str, str]]:
        """The table a person reads; what is not known is left out."""
        rows = [
            ("caller's last word -> end of turn decided", self.endpoint_ms),
            ("   of it the service (socket, gateway, log)", self.up_ms),
            ("end of turn decided -> first sound of the answer", self.answer_ms),
            ("   of it the model (recognise, reply, speak)", self.model_ms),
            ("   of it the service (log, gateway, socket)", self.down_ms),
            ("caller's last word -> first sound, all in all", self.heard_ms),
        ]
        return [(name, f"{value_ms:6.0f} ms") for name, value_ms in rows if value_ms is not None]


def measure(conversation: Conversation, log: Iterable[Line] = ()) -> Latency:
    """The latencies of a conversation's answer; with the session's log also whose they were."""
    answer = conversation.answer
    if answer is None or answer.first_audio is None:
        return Latency()
    first_sound_ms, spoken_ms = answer.first_audio.at_s * 1000, conversation.speech_end_s * 1000
    heard_ms = first_sound_ms - spoken_ms
    stopped = conversation.first(SPEECH_STOPPED, after_s=conversation.speech_end_s)
    if stopped is None:
        return Latency(heard_ms=heard_ms)
    lines = list(log)
    decided_ms = _recorded_ms(lines, stopped.event.server_event_seq)
    produced_ms = _recorded_ms(lines, answer.first_audio.event.server_event_seq)
    if decided_ms is None or produced_ms is None:
        told_ms = stopped.at_s * 1000
        return Latency(heard_ms=heard_ms, endpoint_ms=told_ms - spoken_ms, answer_ms=first_sound_ms - told_ms)
    return Latency(
        heard_ms=heard_ms,
        endpoint_ms=decided_ms - spoken_ms,
        answer_ms=first_sound_ms - decided_ms,
        up_ms=_uplink_ms(lines, conversation),
        model_ms=produced_ms - decided_ms,
        down_ms=first_sound_ms - produced_ms,
    )


def _recorded_ms(lines: list[Line], seq: int | None) -> int | None:
    found = (line.at_ms for line in lines if isinstance(line, OutputLine) and line.seq == seq)
    return next(found, None)


def _uplink_ms(lines: list[Line], conversation: Conversation) -> float | None:
    """How long the caller's last word took into the log; ``None`` when no append says where it ends."""
    appends = [line for line in lines if isinstance(line, InputLine) and line.audio_end_ms is not None]
    if not appends:
        return None
    # The stream began where its first append did; every later one was due when its audio was complete.
    ends = [(line.audio_end_ms or 0, line.at_ms) for line in appends]
    began_ms = conversation.stream_start_s * 1000
    last_word_ms = conversation.speech_end_s * 1000 - began_ms
    end_ms, at_ms = next(((end, at) for end, at in ends if end >= last_word_ms), ends[-1])
    return max(0.0, at_ms - (began_ms + end_ms))
