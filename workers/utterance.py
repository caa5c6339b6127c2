"""Where the turn that nobody committed yet lies in the input, so that a successor can hear it again.

Facts say how much was heard, not which sound; this finds the sound. Fed with a session's records in order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from duplex_es.log.api import START, EntryId
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


class UtteranceFinder:
    """Takes every record's facts once they are folded; remembers places at most ``LONGEST_MS`` back."""

    def __init__(self) -> None:
        self._places: deque[Place] = deque([Place(START, Clock(), Settings())])
        self._since_ms = 0
        self._speech_ms: int | None = None
        self._stopped_ms: int | None = None

    def take(self, facts: Iterable[Fact], session: Session, consumed: EntryId) -> None:
        """Note one decision: its facts, the state after it, and the last input it took in."""
        clock = session.input.clock
        for fact in facts:
            self._note(fact, clock.ms)
        newest = self._places[-1]
        has_settled = self._since_ms == clock.ms != newest.clock.ms
        if has_settled or clock.ms - newest.clock.ms >= APART_MS or session.settings != newest.settings:
            self._places.append(Place(consumed, clock, session.settings))
        while len(self._places) > 1 and self._places[1].clock.ms < clock.ms - LONGEST_MS:
            self._places.popleft()

    def found(self, session: Session) -> Unsettled:
        """What a successor has to hear again before the first new input."""
        now_ms = session.input.clock.ms
        is_open = session.input.item_id is not None and self._speech_ms is not None
        begun_ms = (self._speech_ms or 0) - LEAD_IN_MS if is_open else now_ms - QUIET_MS
        from_ms = max(self._since_ms, begun_ms, now_ms - LONGEST_MS)
        before = [place for place in self._places if place.clock.ms <= from_ms]
        return Unsettled(before[-1] if before else self._places[0], from_ms)

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
