"""A whole answer before it is given: small enough to be kept in the session's log, enough to give it again exactly."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from duplex_es.model import Recipe

from .dialogue.scene import Call, Manner, Say


@dataclass(frozen=True, slots=True)
class Called:
    """A function to call, under the id that it is called by."""

    call_id: str
    name: str
    arguments: str

    @classmethod
    def anew(cls, call: Call) -> Called:
        """``call`` under an id of its own."""
        # Stock clients hash ids of more than 32 characters and then no longer know them.
        return cls(f"call_{uuid.uuid4().hex[:24]}", call.name, call.arguments)


Step = Say | Called


def step_of(part: Say | Call) -> Step:
    """A part of an answer, ready to be given."""
    return Called.anew(part) if isinstance(part, Call) else part


@dataclass(frozen=True, slots=True)
class Plan:
    """What an answer says and calls, in order, and how. ``told`` is the call whose output it says."""

    steps: tuple[Step, ...]
    manner: Manner
    aloud: bool
    told: str | None = None

    def recipe(self) -> Recipe:
        """The plan as it is kept."""
        steps = [
            [step.text] if isinstance(step, Say) else [step.call_id, step.name, step.arguments] for step in self.steps
        ]
        notes: dict[str, object] = {
            "steps": steps,
            "speed": self.manner.speed,
            "gain": self.manner.gain,
            "aloud": self.aloud,
            "told": self.told,
        }
        return Recipe(notes=notes)

    @classmethod
    def of(cls, recipe: Recipe) -> Plan | None:
        """The plan that was kept as ``recipe``; ``None`` when it is none."""
        match recipe.notes:
            case {
                "steps": list(kept),
                "speed": int() | float() as speed,
                "gain": int() | float() as gain,
                "aloud": bool(aloud),
                "told": str() | None as told,
            }:
                steps = [_read(step) for step in kept]
                known = tuple(step for step in steps if step is not None)
                return cls(known, Manner(speed, gain), aloud, told) if len(known) == len(steps) else None
        return None


def _read(kept: object) -> Step | None:
    match kept:
        case [str(text)]:
            return Say(text)
        case [str(call_id), str(name), str(arguments)]:
            return Called(call_id, name, arguments)
    return None
