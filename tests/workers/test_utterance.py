"""Where the turn that is not over lies, told from the facts alone."""

from __future__ import annotations

import pytest

from duplex_es.log.api import EntryId
from duplex_es.session.events import (
    AudioAppended,
    EpochAdvanced,
    Fact,
    InputCleared,
    InputCommitted,
    SpeechStarted,
    SpeechStopped,
)
from duplex_es.session.state import Session
from duplex_es.session.step import fold
from workers.utterance import LEAD_IN_MS, LONGEST_MS, QUIET_MS, UtteranceFinder

pytestmark = pytest.mark.unit


class Told:
    """A session as its records tell it, one input entry per record."""

    def __init__(self) -> None:
        self.finder = UtteranceFinder()
        self.session = Session(id="s", state="open")
        self.entries = 0

    def record(self, *facts: Fact) -> Told:
        self.entries += 1
        self.session = fold(facts, self.session)
        self.finder.take(facts, self.session, EntryId(1, self.entries))
        return self

    def sound(self, ms: int) -> Told:
        return self.record(AudioAppended(samples=ms * 16, rate_hz=16_000))

    def begin(self) -> Told:
        return self.record(SpeechStarted(item_id="item_1", start_ms=self.session.input.clock.ms))

    def found(self) -> tuple[int, int, int]:
        """The entry to read after, the clock there, and from when on to listen."""
        unsettled = self.finder.found(self.session)
        return unsettled.place.after.number, unsettled.place.clock.ms, unsettled.from_ms


def test_of_a_quiet_caller_only_the_last_moment_is_heard_again() -> None:
    told = Told()
    for _ in range(100):
        told.sound(100)
    after, clock_ms, from_ms = told.found()
    assert from_ms == 10_000 - QUIET_MS
    assert from_ms - 1_000 < clock_ms <= from_ms
    assert after == clock_ms // 100


def test_a_sentence_is_heard_again_from_a_little_before_its_start() -> None:
    told = Told().sound(5_000).begin()
    for _ in range(300):
        told.sound(100)
    _, clock_ms, from_ms = told.found()
    assert from_ms == 5_000 - LEAD_IN_MS
    assert clock_ms <= from_ms


def test_nothing_older_than_the_longest_turn_is_heard_again() -> None:
    told = Told().begin()
    for _ in range(LONGEST_MS // 1000 + 60):
        told.sound(1_000)
    after, clock_ms, from_ms = told.found()
    assert from_ms == 60_000
    assert 59_000 <= clock_ms <= from_ms
    assert after >= 60


@pytest.mark.parametrize("fact", [InputCommitted(item_id="item_1", turn_id=0), InputCleared(), EpochAdvanced(epoch=1)])
def test_what_a_turn_holds_or_the_client_dropped_is_not_heard_again(fact: Fact) -> None:
    told = Told().begin().sound(3_000).record(fact)
    assert told.found()[1:] == (3_000, 3_000)
    told.sound(700)
    assert told.found()[1:] == (3_000, 3_000)


def test_a_turn_that_the_model_ended_ends_where_the_model_stopped_hearing_it() -> None:
    told = Told().begin().sound(1_000).sound(1_000).sound(1_000)
    told.record(
        SpeechStopped(item_id="item_1", end_ms=2_500), InputCommitted(item_id="item_1", turn_id=0, by_model=True)
    )
    _, clock_ms, from_ms = told.found()
    assert from_ms == 2_500
    assert clock_ms == 2_000


def test_a_noise_is_over_where_it_stopped() -> None:
    told = Told().begin().sound(1_000).record(SpeechStopped(item_id="item_1", end_ms=900, kept=False)).sound(500)
    assert told.found()[2] == 900


def test_a_start_on_a_clock_of_the_clients_own_is_not_believed_beyond_now() -> None:
    told = Told().sound(4_000).record(SpeechStarted(item_id="item_1", start_ms=99_000_000)).sound(500)
    assert told.found()[2] == 4_000 - LEAD_IN_MS
