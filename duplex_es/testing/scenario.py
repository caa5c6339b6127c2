"""Given the past, when this is said, then these facts are recorded: the session core read aloud.

A test of a session rule is one sentence::

    (opened(info)
        .given(CreateResponse(), ModelSpoke(epoch=0, turn=0))
        .when(CancelResponse())
        .then(ResponseFinished)
        .asks_for(AskModel(Interrupt(epoch=1, response_id=answer, heard_text="")))
        .shows("response.output_item.done", "conversation.item.done", "response.done", "rate_limits.updated"))

Works on the real ``step`` and ``fold``; nothing is faked. A scenario is a value: every verb but the checks gives a new
one, so that many tests may start from the same past.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..model import ModelInfo
from ..protocol import Frame, OpenSession
from ..protocol.frames import Error, ServerEvent, wire_name
from ..session.effects import Effect
from ..session.events import Fact
from ..session.inputs import Input, OpenAs
from ..session.state import Session
from ..session.step import Decision, fold, step

Expected = object | type | str
"""A whole fact, effect or frame; or its class; or, of a frame, its wire name."""


@dataclass(frozen=True)
class Scenario:
    """A session at some point of its life, and what it last decided.

    Checks take expectations in order, one for each thing that happened; none at all means that nothing happened.
    They return the scenario, so that they can be chained, and raise AssertionError that shows both sides.
    """

    session: Session = field(default_factory=Session)
    decision: Decision = field(default_factory=lambda: Decision(session=Session()))

    def given(self, *past: Fact | Input) -> Scenario:
        """The past, told as recorded facts, as what was said, or both; what it showed and asked for is forgotten."""
        session = self.session
        for one in past:
            session = fold([one], session) if isinstance(one, Fact) else step(session, one, 0).session
        return Scenario(session=session, decision=Decision(session=session))

    def when(self, said: Input, *, now_ms: int = 0) -> Scenario:
        """One thing is said: a command, a signal of the model, a report of the host."""
        decision = step(self.session, said, now_ms)
        return Scenario(session=decision.session, decision=decision)

    def then(self, *facts: Expected) -> Scenario:
        """Exactly these facts were recorded."""
        _check("recorded", self.decision.facts, facts)
        return self

    def asks_for(self, *effects: Expected) -> Scenario:
        """The host was asked for exactly these effects."""
        _check("asked for", self.decision.effects, effects)
        return self

    def shows(self, *frames: Expected) -> Scenario:
        """The client heard exactly these frames."""
        _check("shown", self.decision.frames, frames)
        return self

    def refuses(self, code: str, *, param: str | None = None) -> Scenario:
        """The client heard one ``error`` and nothing else: with this code and, if named, about this field."""
        self.shows("error")
        frame = self.decision.frames[0]
        assert isinstance(frame, Error)
        error = frame.error
        assert error.code == code, f"refused with {error.code!r} ({error.message}), expected {code!r}"
        assert param is None or error.param == param, f"refused about {error.param!r}, expected {param!r}"
        return self

    @property
    def frames(self) -> tuple[Frame, ...]:
        """What the client heard of the last decision."""
        return self.decision.frames

    @property
    def effects(self) -> tuple[Effect, ...]:
        """What the host was asked for by the last decision."""
        return self.decision.effects


def opened(info: ModelInfo, session: dict[str, object] | None = None, *, session_id: str = "s1") -> Scenario:
    """A session of the model ``info`` that has just opened; ``session`` are the settings, as a client writes them."""
    command = OpenSession(session=session or {}, model=info.name)
    opening = OpenAs(command=command, session_id=session_id, incarnation=0, model=info.name, info=info)
    scenario = Scenario().given(opening)
    assert scenario.session.state == "open", "these settings are refused"
    return scenario


def _check(verb: str, happened: Sequence[object], expected: Sequence[Expected]) -> None:
    same = len(happened) == len(expected) and all(map(_matches, happened, expected))
    if not same:
        wanted = [one if isinstance(one, str) else getattr(one, "__name__", one) for one in expected]
        raise AssertionError(f"{verb}:\n  {_told(happened)}\nexpected:\n  {_told(wanted)}")


def _matches(one: object, expected: Expected) -> bool:
    if isinstance(expected, str):
        return _name(one) == expected
    return isinstance(one, expected) if isinstance(expected, type) else one == expected


def _name(one: object) -> str:
    return wire_name(one) if isinstance(one, ServerEvent) else type(one).__name__


def _told(things: Sequence[object]) -> str:
    return "\n  ".join(str(one)[:500] for one in things) or "nothing"
