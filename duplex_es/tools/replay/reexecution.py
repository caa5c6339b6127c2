"""Recorded decisions made again by the session core of this build, each compared with what stands in the log.

Nothing runs beside the core: what was said comes from the log, what the model, the clock and the detector contributed
is made again from the facts it led to (``causes``). The rules decide on it as if it happened now, at the recorded time;
the facts and frames they come to must be the recorded ones.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from ...log.api import EntryId, Head
from ...protocol import Frame, ResponseOutputAudioDelta, wire_name
from ...reading.source import Source
from ...reading.words import json_text
from ...session import events
from ...session.events import Fact
from ...session.state import Session, replace
from ...session.step import merged, step
from ..errors import ToolError
from .causes import Left, Parts, ways_in, ways_out
from .recording import Heard, Recorded, decisions_in, heard_in

COMMANDS_SAY_MORE = 5
"""A command stands in the log; what the model may have reported instead would have to explain so many facts more."""
MOST_TRIES = 5_000
"""So many ways are tried for one decision before it is called another one."""


class Step(NamedTuple):
    """One thing that was decided on, in its parts: ``entry`` of the input, if it is one. ``session`` came of it."""

    parts: Parts
    entry: EntryId | None
    at_ms: int
    session: Session


@dataclass(frozen=True, slots=True)
class Divergence:
    """Where this build decides otherwise. ``recorded`` is what stands in the log, ``made`` what comes out now."""

    where: str
    seq: int
    recorded: str
    made: str

    def __str__(self) -> str:
        return f"{self.where}: the log has {self.recorded}, this build decides {self.made}"


@dataclass(slots=True)
class Remade:
    """One decision, made again: how it came about, and the state after it."""

    recorded: Recorded
    steps: tuple[Step, ...]
    session: Session


@dataclass(slots=True)
class Checked:
    """What a whole check came to. ``undecided`` entries of the input came after the last decision of the log."""

    decisions: int = 0
    facts: int = 0
    frames: int = 0
    commands: int = 0
    signals: int = 0
    undecided: int = 0
    divergence: Divergence | None = None


async def check(source: Source, head: Head) -> Checked:
    """Make every decision of the session again. Raises: ToolError when it cannot be read from its beginning."""
    found = Checked()
    async for one in remade(source, head):
        if isinstance(one, Divergence):
            found.divergence = one
            return found
        if isinstance(one, int):
            found.undecided = one
            continue
        found.decisions += 1
        found.facts += len(one.recorded.facts)
        found.frames += len(one.recorded.frames)
        found.commands += sum(each.entry is not None for each in one.steps)
        found.signals += sum(each.entry is None for each in one.steps)
    return found


async def remade(source: Source, head: Head) -> AsyncIterator[Remade | Divergence | int]:
    """Each decision of the session made again, in order, up to the first that comes out differently.

    At the end, how many entries of the input were not decided on by then. Raises: as ``check``.
    """
    if head.first_seq > 1:
        raise ToolError(f"records before seq {head.first_seq} are gone: it cannot be carried out from its beginning")
    core = Core(head.model)
    inputs = heard_in(source, head)
    waiting: deque[Heard] = deque()
    last: Heard | None = None
    async for decision in decisions_in(source, head):
        while last is None or last.id < decision.consumed:
            last = await anext(inputs, None)
            if last is None:
                break
            waiting.append(last)
        is_whole = decision.entries and (head.state == "closed" or decision.entries[-1].id.number < head.output.number)
        found = core.make_again(decision, waiting, whole=bool(is_whole))
        yield found
        if isinstance(found, Divergence):
            return
    yield len(waiting) + sum([1 async for _ in inputs])


class _At(NamedTuple):
    """A place in the search: the state, what is left of the decision, what was taken in, what was shown."""

    session: Session
    left: tuple[Fact, ...]
    taken: int
    frames: int
    steps: tuple[Step, ...] | None
    before: _At | None


@dataclass(slots=True)
class _Search:
    """The search for the steps of one decision, and the best that was found if it fails."""

    decision: Recorded
    heard: tuple[Heard, ...]
    whole: bool
    tries: int = 0
    furthest: int = -1
    made: str = "nothing"
    expected: str = ""


class Core:
    """The session core as it goes through one recorded call."""

    def __init__(self, model: str) -> None:
        self.session = Session()
        self._model = model
        self._at_ms = 0

    def make_again(self, decision: Recorded, waiting: deque[Heard], *, whole: bool = True) -> Remade | Divergence:
        """Decide on what led to ``decision``; takes what it consumed from ``waiting``."""
        due = tuple(heard for heard in waiting if heard.id <= decision.consumed)
        search = _Search(decision, due, whole)
        found = self._search(search)
        if found is None:
            return Divergence(f"output {decision.first}", decision.first.number, search.expected, search.made)
        for _ in due:
            waiting.popleft()
        self.session, self._at_ms = found.session, decision.at_ms
        return Remade(decision, _steps_of(found), found.session)

    def _search(self, search: _Search) -> _At | None:
        """Depth first over the ways in which the decision may have come about; nearly always the first one is it."""
        start = _At(self.session, search.decision.facts, 0, 0, None, None)
        branches: list[tuple[_At, Iterator[tuple[Parts, Heard | None]]]] = [(start, self._ways(start, search))]
        while branches:
            at, ways = branches[-1]
            way = next(ways, None)
            search.tries += 1
            if way is None or search.tries > MOST_TRIES + 4 * len(search.decision.facts) + 4 * len(search.heard):
                branches.pop()
                continue
            then = self._try(at, *way, search)
            if then is None:
                continue
            if not then.left and then.frames:
                return then
            branches.append((then, self._ways(then, search)))
        return None

    def _ways(self, at: _At, search: _Search) -> Iterator[tuple[Parts, Heard | None]]:
        """The next command if it shows in the facts, what else leads to them, and a command that leaves no trace."""
        left = Left(at.left, search.decision)
        following = search.heard[at.taken] if at.taken < len(search.heard) else None
        traceless: list[tuple[Parts, Heard | None]] = []
        if following is not None:
            for parts in ways_in(at.session, following, left, self._model):
                if _leaves_trace(at.session, parts, search.decision.at_ms):
                    yield parts, following
                else:
                    traceless.append((parts, following))
        if left.facts:
            for parts in ways_out(at.session, left):
                yield parts, None
        yield from traceless

    def _try(self, at: _At, parts: Parts, heard: Heard | None, search: _Search) -> _At | None:
        """Where deciding on ``parts`` leads; ``None`` when it is not what the log has next."""
        decision, session = search.decision, at.session
        at_ms = _clock(at.left, heard, decision, self._at_ms)
        facts: list[Fact] = []
        frames: list[Frame] = []
        for part in parts:
            made = step(session, part, at_ms)
            session, facts, frames = made.session, [*facts, *made.facts], [*frames, *made.frames]
        left = _without(at.left, facts, silenced=decision.is_silenced)
        taken = at.taken + (heard is not None)
        if left is None:
            self._note(at, parts, heard, facts, search)
            return None
        if frames:
            is_last = not left and taken == len(search.heard)
            if not is_last or not _same_frames(frames, decision, search.whole):
                self._note(at, parts, heard, facts, search, frames)
                return None
        elif not left and facts:
            self._note(at, parts, heard, facts, search, frames)
            return None
        if decision.is_silenced:
            session = _with_checksum(session, at.left[: len(at.left) - len(left)])
        step_taken = Step(parts, None if heard is None else heard.id, at_ms, session)
        return _At(session, left, taken, len(frames), (step_taken,), at)

    @staticmethod
    def _note(
        at: _At,
        parts: Parts,
        heard: Heard | None,
        facts: list[Fact],
        search: _Search,
        frames: list[Frame] | None = None,
    ) -> None:
        """Remember the try that came furthest, for the words of a divergence; what a command led to says most."""
        reached = 2 * (len(search.decision.facts) - len(at.left)) + (len(facts) > 0) + bool(frames)
        reached += COMMANDS_SAY_MORE if heard is not None and facts else 0
        if reached <= search.furthest:
            return
        search.furthest = reached
        recorded, made = (search.decision.frames, frames) if frames else (at.left, facts)
        pair = _first_difference(list(recorded), list(made or ()))
        search.expected, search.made = (_short(one) for one in pair)
        search.made = f"{search.made} on {type(parts[0]).__name__}"


def _leaves_trace(session: Session, parts: Parts, at_ms: int) -> bool:
    return any(step(session, part, at_ms).facts for part in parts[:1])


def _clock(left: tuple[Fact, ...], heard: Heard | None, decision: Recorded, since_ms: int) -> int:
    """When it was decided: what is shown, when it was recorded; what is not shows its time itself, if it matters."""
    if left and isinstance(left[0], events.WorkerChanged) and left[0].at_ms:
        return left[0].at_ms
    if left and isinstance(left[0], events.SessionOpened) and left[0].opened_at_ms:
        return left[0].opened_at_ms
    return decision.at_ms


class Rest(events.AudioAppended, frozen=True, kw_only=True, tag="AudioAppended"):
    """What is left of appends that were recorded as one. Of all but the first, the fact tells only what they share."""


def _without(left: tuple[Fact, ...], facts: list[Fact], *, silenced: bool) -> tuple[Fact, ...] | None:
    """What is left once ``facts`` are taken off the front; ``None`` when the front is something else.

    Facts in a row may have been recorded as one: then a part of it is taken off.
    """
    rest = deque(left)
    for fact in facts:
        if not rest:
            return None
        recorded = rest.popleft()
        if isinstance(recorded, Rest) and isinstance(fact, events.AudioAppended) and recorded.samples == fact.samples:
            if merged(recorded, fact) is None:
                return None
            continue
        if recorded == fact or (silenced and _but_for_sound(recorded) == _but_for_sound(fact)):
            continue
        remainder = _remainder(recorded, fact)
        if remainder is None:
            return None
        rest.appendleft(remainder)
    return tuple(rest)


def _with_checksum(session: Session, recorded: Sequence[Fact]) -> Session:
    """The state with the checksum that the recorded facts tell: the sound it is of is not there to be summed."""
    sums = [fact.crc for fact in recorded if isinstance(fact, events.AudioProduced)]
    if not sums or session.response is None:
        return session
    return replace(session, response=replace(session.response, crc=sums[-1]))


def _but_for_sound(fact: Fact) -> Fact:
    return replace(fact, crc=0) if isinstance(fact, events.AudioProduced) else fact


def _remainder(recorded: Fact, fact: Fact) -> Fact | None:
    """What follows ``fact`` when the two together were recorded as ``recorded``."""
    if isinstance(recorded, events.AudioAppended) and isinstance(fact, events.AudioAppended):
        rest = Rest(
            samples=recorded.samples - fact.samples,
            rate_hz=recorded.rate_hz,
            is_speech=recorded.is_speech,
            overlaps=recorded.overlaps,
            dropped=recorded.dropped,
        )
        if isinstance(recorded, Rest):
            return rest if rest.samples > 0 and merged(recorded, fact) is not None else None
        return rest if rest.samples > 0 and merged(fact, rest) == recorded else None
    if isinstance(recorded, events.MemoryGrown) and isinstance(fact, events.MemoryGrown):
        rest_data = recorded.data[len(fact.data) :]
        later = events.MemoryGrown(data=rest_data)
        return later if rest_data and merged(fact, later) == recorded else None
    return None


def _same_frames(frames: list[Frame], decision: Recorded, whole: bool) -> bool:
    recorded = decision.frames
    if len(frames) != len(recorded):
        if whole or len(frames) < len(recorded):
            return False
        frames = frames[: len(recorded)]
    for made, shown in zip(frames, recorded, strict=True):
        if made == shown:
            continue
        expired = isinstance(shown, ResponseOutputAudioDelta) and not shown.delta
        if not (expired and isinstance(made, ResponseOutputAudioDelta) and replace(made, delta=b"") == shown):
            return False
    return True


def _steps_of(at: _At) -> tuple[Step, ...]:
    steps: list[Step] = []
    while at.before is not None:
        steps += at.steps or ()
        at = at.before
    return tuple(reversed(steps))


def _first_difference(recorded: list[object], made: list[object]) -> tuple[object, object]:
    for one, two in zip(recorded, made, strict=False):
        if one != two:
            return one, two
    at = min(len(recorded), len(made))
    return (recorded[at] if at < len(recorded) else None), (made[at] if at < len(made) else None)


def _short(one: object) -> str:
    if one is None:
        return "nothing"
    if not isinstance(one, msgspec.Struct):
        return str(one)
    plain = msgspec.to_builtins(one, builtin_types=(bytes,))
    name = plain.pop("fact", None) or (wire_name(one) if "type" in plain else type(one).__name__)
    plain.pop("type", None)
    shown = {key: f"{len(value)} bytes" if isinstance(value, bytes) else value for key, value in plain.items()}
    text = f"{name} {json_text(shown, lines=True)}"
    return text if len(text) <= 200 else f"{text[:200]}..."


__all__ = ["Checked", "Core", "Divergence", "Remade", "Step", "check", "remade"]
