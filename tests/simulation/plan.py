"""What happens in one schedule, drawn from its seed before anything runs: who talks, and what goes wrong when."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

Step = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that goes wrong ``at_s`` after the start. ``args`` are drawn, too; processes go by position."""

    at_s: float
    kind: str
    args: tuple[Any, ...] = ()

    @property
    def over_s(self) -> float:
        """When it has passed, at the latest."""
        return self.at_s + max((arg for arg in self.args if isinstance(arg, float)), default=0.0) + 8.0


@dataclass(frozen=True, slots=True)
class Plan:
    """One schedule.

    ``loses`` says that the store may lose what it acknowledged: clients may then be told so; with ``heals`` whoever
    wrote it lives and writes it again.
    """

    seed: int
    programs: tuple[tuple[Step, ...], ...]
    faults: tuple[Fault, ...]
    pace_s: tuple[float, float]
    forbids_functions: bool
    loses: bool
    heals: bool

    @property
    def over_s(self) -> float:
        """When the last fault has passed."""
        return max((fault.over_s for fault in self.faults), default=0.0)

    def __str__(self) -> str:
        lines = [f"seed {self.seed}: {len(self.programs)} clients, latency {self.pace_s}"]
        lines += [f"  at {fault.at_s:.3f} s {fault.kind} {fault.args}" for fault in self.faults]
        return "\n".join(lines)


PACES = ((0.0001, 0.001), (0.0001, 0.004), (0.001, 0.03))
WHO = ("gateway", "worker")
PURPOSES = ("", "", "append", "call", "read", "subscribe")
STALLS_S = (0.3, 1.5, 5.0, 5.5, 9.0)


MOODS: dict[str, float] = {
    **{"calm": 1, "few": 6, "storm": 2, "holes": 0.7, "fence": 0.7, "loss": 1, "loss-amid": 1, "orphan": 0.7}
}
"""Nothing goes wrong, a little, a lot; notifications get lost; a worker wakes when its session was taken; the store
loses its end: alone, amid other faults, together with the worker that could write it again."""


def draw_plan(seed: int, mood: str | None = None) -> Plan:
    """The schedule of a seed; ``mood`` is drawn, too, unless it is given."""
    draw = random.Random(f"plan {seed}")
    clients = draw.choice((1, 1, 1, 2))
    programs = tuple(_program(draw) for _ in range(clients))
    drawn = draw.choices(list(MOODS), list(MOODS.values()))[0]
    mood = mood or drawn
    faults: list[Fault] = []
    match mood:
        case "few":
            faults = [_fault(draw) for _ in range(draw.randint(1, 3))]
        case "storm":
            faults = [_fault(draw) for _ in range(draw.randint(3, 6))]
        case "holes":
            faults = [
                Fault(_when(draw), "skip", (draw.choice(WHO), draw.randrange(2), draw.randint(1, 3)))
                for _ in range(draw.randint(2, 6))
            ]
        case "fence":
            faults = [Fault(_when(draw), "stall-worker", (draw.randrange(2), 0.0))]
        case "loss":
            faults = [_loss(draw)]
        case "loss-amid":
            faults = [_loss(draw), *(_fault(draw) for _ in range(draw.randint(1, 3)))]
        case "orphan":
            loss = _loss(draw)
            dies_s = max(0.0, loss.at_s + draw.choice((-0.3, -0.01, 0.01, 0.1)))
            faults = [loss, *(Fault(dies_s, "kill-worker", (which, 0.5)) for which in range(draw.randint(1, 2)))]
    faults.sort(key=lambda fault: fault.at_s)
    loses = mood in ("loss", "loss-amid", "orphan")
    return Plan(
        seed=seed,
        programs=programs,
        faults=tuple(faults),
        pace_s=draw.choice(PACES),
        forbids_functions=draw.random() < 0.1,
        loses=loses,
        heals=mood == "loss" and all(fault.kind == "restart" for fault in faults),
    )


def _program(draw: random.Random) -> tuple[Step, ...]:
    steps: list[Step] = []
    for _ in range(draw.randint(4, 14)):
        match draw.choices(("sound", "ask", "say", "pause", "ack", "beat", "stop", "hop"), (6, 4, 1, 3, 3, 1, 0.3, 1))[
            0
        ]:
            case "sound":
                steps += [("sound", draw.randint(10, 40)) for _ in range(draw.randint(1, 3))]
            case "ask":
                steps.append(("ask", draw.randint(1, 8)))
            case "say":
                steps.append(("say", draw.randint(80, 160)))
            case "pause":
                steps.append(("pause", draw.choice((0.01, 0.1, 0.4))))
            case "hop":
                steps.append(("hop", draw.choice(("close", "cut", "vanish", "keep"))))
            case verb:
                steps.append((verb,))
    steps.append(("ask", draw.randint(1, 5)))
    return tuple(steps)


def _when(draw: random.Random) -> float:
    # Most calls live some seconds; faults that come while they open, and late ones, count too.
    return round(draw.choice((draw.uniform(0.0, 0.2), draw.uniform(0.05, 1.5), draw.uniform(0.05, 3.0))), 4)


KINDS: dict[str, float] = {
    **{"reply": 3, "request": 2, "part": 2, "cut": 3, "skip": 3, "deaf": 1, "slow": 1, "freeze": 1.5, "readonly": 1},
    **{"oom": 0.5, "restart": 1.5, "parted": 1.5, "kill-gateway": 2, "kill-worker": 3, "stall-gateway": 1.5},
    **{"stall-worker": 3, "drain-gateway": 1, "drain-worker": 1, "cut-client": 2, "vanish-client": 1},
}


def _fault(draw: random.Random) -> Fault:
    kind = draw.choices(list(KINDS), list(KINDS.values()))[0]
    who, which = draw.choices(WHO, (2, 3))[0], draw.randrange(2)
    seconds = round(draw.choice((0.2, 0.8, draw.uniform(0.5, 7.0))), 3)
    args: tuple[Any, ...]
    match kind:
        case "reply" | "request" | "part" | "cut":
            args = (who, which, draw.choice(PURPOSES))
        case "skip":
            args = (who, which, draw.randint(1, 4))
        case "deaf" | "slow" | "parted":
            args = (who, which, seconds)
        case "freeze" | "readonly" | "oom":
            args = (seconds,)
        case "restart":
            args = (0, min(seconds, 2.0), draw.random() < 0.2)
        case "stall-gateway" | "stall-worker":
            args = (which, draw.choice(STALLS_S))
        case _:
            args = (which, round(draw.uniform(0.1, 1.5), 3))
    return Fault(_when(draw), kind, args)


def _loss(draw: random.Random) -> Fault:
    at_s = round(draw.uniform(0.2, 2.5), 4)
    if draw.random() < 0.1:
        return Fault(at_s, "emptied", (round(draw.uniform(0.1, 1.0), 3),))
    lost = draw.choice((1, 2, draw.randint(1, 10), draw.randint(5, 40)))
    if draw.random() < 0.4:
        return Fault(at_s, "failover", (lost, round(draw.uniform(0.2, 2.0), 3)))
    return Fault(at_s, "restart", (lost, round(draw.uniform(0.1, 1.0), 3), draw.random() < 0.2))
