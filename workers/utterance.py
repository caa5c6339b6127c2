"""Where the turns lie in the input that nobody has understood yet, so that a successor can hear them again.

Facts say how much was heard, not which sound; this finds the sound. Fed with a session's records in order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from duplex_es.log.api import EntryId
from duplex_es.session.events import (
    CommitRepeated,
    EpochAdvanced,
    Fact,
    InputCleared,
    InputCommitted,
    ResponseFinished,
    SilenceCommitted,
    SpeechStarted,
    SpeechStopped,
)
from duplex_es.session.state import Clock, Session, Settings

LEAD_IN_MS = 1_000
"""Sound before the detected start of speech that is heard again with it."""
QUIET_MS = 2_000
"""How much is heard again where nobody was speaking: enough for a word that had just begun."""
LONGEST_MS = 120_000
APART_MS = 500
LATELY_MS = 10_000
LONG_AGO_APART_MS = 4_000
"""Of what lies further back than ``LATELY_MS``, places so far apart are enough: hearing begins a little too early."""


@dataclass(frozen=True, slots=True)
class Place:
    """A position of the input: after entry ``after`` the session's input clock stood at ``clock``."""

    after: EntryId
    clock: Clock
    settings: Settings


@dataclass(frozen=True, slots=True)
class Unsettled:
    """Sound to hear again: what follows ``place``, from ``from_ms`` on the input clock."""

    place: Place
    from_ms: int


class CommittedTurn(msgspec.Struct, frozen=True):
    """A turn of the caller's that is committed as ``item_id`` and neither understood nor answered yet.

    It lies between ``from_ms`` and ``until_ms`` on the input clock; the input that committed it is
    ``<generation>-<number>``.
    """

    item_id: str
    from_ms: int
    until_ms: int
    generation: int
    number: int

    @property
    def until(self) -> EntryId:
        """The input that committed it."""
        return EntryId(self.generation, self.number)


@dataclass(frozen=True, slots=True)
class Committed:
    """The sound of a turn that a successor has to hear again as a whole: ``unsettled``, up to the end of ``turn``."""

    turn: CommittedTurn
    unsettled: Unsettled


class FinderState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a finder knows, to be stored: ``places`` as generation, number, the three fields of the clock, settings."""

    since_ms: int = 0
    speech_ms: int | None = None
    stopped_ms: int | None = None
    settings: tuple[Settings, ...] = (Settings(),)
    places: tuple[tuple[int, int, int, int, int, int], ...] = ((0, 0, 16_000, 0, 0, 0),)
    turns: tuple[CommittedTurn, ...] = ()


class UtteranceFinder:
    """Takes every record's facts once they are folded; remembers places at most ``LONGEST_MS`` back.

    ``state`` makes one that goes on where another was.
    """

    def __init__(self, state: FinderState | None = None) -> None:
        state = state or FinderState()
        self._since_ms, self._speech_ms, self._stopped_ms = state.since_ms, state.speech_ms, state.stopped_ms
        self._places = deque(
            Place(EntryId(generation, number), Clock(*clock), state.settings[index])
            for generation, number, *clock, index in state.places
        )
        self._turns = state.turns

    def state(self) -> FinderState:
        """All there is to know, to be stored or copied."""
        settings: list[Settings] = []
        places = []
        for place in self._places:
            if not settings or place.settings != settings[-1]:
                settings.append(place.settings)
            after, clock = place.after, place.clock
            counts = (clock.rate_hz, clock.samples, clock.base_us)
            places.append((after.generation, after.number, *counts, len(settings) - 1))
        return FinderState(
            since_ms=self._since_ms,
            speech_ms=self._speech_ms,
            stopped_ms=self._stopped_ms,
            settings=tuple(settings),
            places=tuple(places),
            turns=self._turns,
        )

    def take(self, facts: Iterable[Fact], session: Session, consumed: EntryId) -> None:
        """Note one decision: its facts, the state after it, and the last input it took in."""
        clock = session.input.clock
        for fact in facts:
            if isinstance(fact, InputCommitted) and _is_told_by_sound(fact):
                from_ms = max(self._since_ms, clock.ms - LONGEST_MS)
                turn = CommittedTurn(fact.item_id, from_ms, clock.ms, consumed.generation, consumed.number)
                self._turns = (*self._turns, turn)
            self._note(fact, clock.ms)
        if self._turns:
            self._turns = tuple(turn for turn in self._turns if _is_open(session, turn.item_id))
        newest = self._places[-1]
        if session.settings == newest.settings and clock == newest.clock:
            self._places[-1] = Place(consumed, clock, session.settings)
        elif (
            self._since_ms == clock.ms or clock.ms - newest.clock.ms >= APART_MS or session.settings != newest.settings
        ):
            self._places.append(Place(consumed, clock, session.settings))
            self._thin(clock.ms)
        while len(self._places) > 1 and self._places[1].clock.ms < clock.ms - LONGEST_MS:
            self._places.popleft()

    def _thin(self, now_ms: int) -> None:
        """Let the newest place that is not of late any more go, if the one before it can do its work."""
        at = next(at for at, place in enumerate(self._places) if place.clock.ms >= now_ms - LATELY_MS) - 1
        if at < 1:
            return
        place, before = self._places[at], self._places[at - 1]
        if place.clock.ms - before.clock.ms < LONG_AGO_APART_MS and place.settings == before.settings:
            del self._places[at]

    def longest_after(self, session: Session) -> EntryId:
        """What comes before this input is nobody's to hear again."""
        return self._place_of(session.input.clock.ms - LONGEST_MS).after

    def kept_after(self, session: Session) -> EntryId:
        """What comes after this input has to stay: it may be heard again, also if speech is noticed only later."""
        from_ms = min(self.found(session).from_ms, session.input.clock.ms - LATELY_MS)
        kept_ms = [max(self._since_ms, from_ms), *(turn.from_ms for turn in self._turns)]
        return self._place_of(min(kept_ms)).after

    def found(self, session: Session) -> Unsettled:
        """What a successor has to hear again before the first new input."""
        now_ms = session.input.clock.ms
        is_open = session.input.item_id is not None and self._speech_ms is not None
        begun_ms = (self._speech_ms or 0) - LEAD_IN_MS if is_open else now_ms - QUIET_MS
        from_ms = max(self._since_ms, begun_ms, now_ms - LONGEST_MS)
        return Unsettled(self._place_of(from_ms), from_ms)

    def committed(self) -> tuple[Committed, ...]:
        """The turns that a successor has to hear again before that, in order."""
        return tuple(Committed(turn, Unsettled(self._place_of(turn.from_ms), turn.from_ms)) for turn in self._turns)

    def _place_of(self, ms: int) -> Place:
        return next((place for place in reversed(self._places) if place.clock.ms <= ms), self._places[0])

    def _note(self, fact: Fact, now_ms: int) -> None:
        match fact:
            case SpeechStarted(start_ms=start_ms):
                # A client counts on a clock of its own.
                self._speech_ms, self._stopped_ms = min(start_ms, now_ms), None
            case SpeechStopped(end_ms=end_ms, kept=kept):
                self._stopped_ms = min(end_ms, now_ms)
                if not kept:
                    self._settled(self._stopped_ms)
            case InputCommitted(by_model=True):
                # The model goes on listening while it understands: the next turn begins where this one stopped.
                self._settled(now_ms if self._stopped_ms is None else self._stopped_ms)
            case InputCommitted() | InputCleared() | SilenceCommitted() | CommitRepeated():
                self._settled(now_ms)
            case EpochAdvanced(cleared_input=True) | ResponseFinished(cleared_input=True):
                self._settled(now_ms)

    def _settled(self, until_ms: int) -> None:
        self._since_ms = max(self._since_ms, until_ms)
        self._speech_ms = self._stopped_ms = None


def _is_told_by_sound(fact: InputCommitted) -> bool:
    """Whether the model was told of a turn whose words only it can know, and at once."""
    is_waiting = fact.overlap_deferred or fact.waits or fact.created
    return fact.has_audio and not fact.by_model and not is_waiting


def _is_open(session: Session, item_id: str) -> bool:
    """Whether the words of a turn, or its answer where there are none, are still to come."""
    item = session.item(item_id)
    return item is not None and (item.transcribing or (session.owed == item_id and not item.transcript))
