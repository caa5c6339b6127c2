"""What one socket hears, frame after frame, and the two things that have to be remembered for it.

In the published stream a function call is a response of its own, which may come while an answer is being spoken.
Stock clients know one response at a time: a call inside an answer is one more output of that answer. And they hear of
speech only while a detector of theirs is on, not when they make the turns themselves.
"""

from __future__ import annotations

from msgspec import structs

from ..frames import (
    Frame,
    InputAudioBufferSpeechStarted,
    InputAudioBufferSpeechStopped,
    RateLimitsUpdated,
    ResponseCreated,
    ResponseDone,
    ResponseFunctionCallArgumentsDelta,
    ResponseFunctionCallArgumentsDone,
    ResponseOutputItemAdded,
    ResponseOutputItemDone,
    SessionCreated,
    SessionUpdated,
)
from ..objects import Item, ResponseObject, given
from .names import STOCK
from .turn_taking import shown_turn_taking
from .wire import render

_OutputFrame = (
    ResponseOutputItemAdded
    | ResponseOutputItemDone
    | ResponseFunctionCallArgumentsDelta
    | ResponseFunctionCallArgumentsDone
)


class Listener:
    """The ear of one socket that speaks ``dialect``. Give it every frame the socket is told, in order.

    A listener that begins in the middle of an answer, after a resume, hears a call in that answer as a response of
    its own; all else is what ``render`` makes of the frame.
    """

    def __init__(self, dialect: str) -> None:
        self.dialect = dialect
        self._answers = OneAtATime() if dialect in STOCK else None
        self._makes_turns = False

    def hear(self, frame: Frame, *, event_id: str, seq: int | None = None) -> list[str]:
        """The texts the socket is sent for ``frame``; see ``render``."""
        if self._answers is None:
            return render(frame, self.dialect, event_id=event_id, seq=seq)
        if isinstance(frame, SessionCreated | SessionUpdated):
            self._makes_turns = shown_turn_taking(frame.session) is None
        if self._makes_turns and isinstance(frame, InputAudioBufferSpeechStarted | InputAudioBufferSpeechStopped):
            return []
        told = self._answers.take(frame)
        return [] if told is None else render(told, self.dialect, event_id=event_id, seq=seq)


class OneAtATime:
    """Folds responses that begin inside another into the outputs of that one."""

    def __init__(self) -> None:
        self._open: str | None = None
        self._inner: str | None = None
        self._calls: list[Item] = []
        self._inner_ended = False

    def take(self, frame: Frame) -> Frame | None:
        """``frame`` as a client hears it that knows one response at a time; ``None`` when it hears nothing."""
        after_inner, self._inner_ended = self._inner_ended, False
        if isinstance(frame, ResponseCreated):
            return self._created(frame)
        if isinstance(frame, ResponseDone):
            return self._done(frame)
        if isinstance(frame, RateLimitsUpdated) and after_inner:
            return None
        if isinstance(frame, _OutputFrame) and self._inner is not None and frame.response_id == self._inner:
            return structs.replace(frame, response_id=self._open, output_index=1 + len(self._calls))
        return frame

    def _created(self, frame: ResponseCreated) -> Frame | None:
        response_id = given(frame.response.id, given(frame.response_id, ""))
        if self._open is not None and response_id != self._open:
            self._inner = response_id
            return None
        self._open, self._calls = response_id, []
        return frame

    def _done(self, frame: ResponseDone) -> Frame | None:
        response_id, outputs = given(frame.response.id, given(frame.response_id, "")), given(frame.response.output, [])
        if self._inner is not None and response_id == self._inner:
            self._inner, self._inner_ended = None, True
            self._calls += outputs
            return None
        calls, self._open, self._calls = self._calls, None, []
        return _with_outputs(frame, [*outputs, *calls]) if calls else frame


def _with_outputs(frame: ResponseDone, outputs: list[Item]) -> ResponseDone:
    response: ResponseObject = structs.replace(frame.response, output=outputs)
    return structs.replace(frame, response=response)
