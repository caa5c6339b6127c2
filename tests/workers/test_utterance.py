"""Where the turn that is not over lies, told from the facts alone."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from duplex_es.log.api import EntryId
from duplex_es.session.events import (
    AudioAppended,
    EpochAdvanced,
    Fact,
    InputCleared,
    InputCommitted,
    InputTranscribed,
    ResponseSpoken,
    ResponseStarted,
    SpeechStarted,
    SpeechStopped,
    TurnBegun,
)
from duplex_es.session.state import Session
from duplex_es.session.step import fold
from workers.utterance import LEAD_IN_MS, LONGEST_MS, QUIET_MS, FinderState, UtteranceFinder

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


# -- turns that are committed, and of which nothing is known yet -----------------------------------------------------


def commit(item_id: str, **fields: Any) -> InputCommitted:
    return InputCommitted(item_id=item_id, turn_id=0, **{"transcribing": True, **fields})


def turns(told: Told) -> list[tuple[str, int, int, int]]:
    """Item, where it begins and ends in milliseconds, and the input that ended it."""
    return [
        (one.turn.item_id, one.unsettled.from_ms, one.turn.until_ms, one.turn.until.number)
        for one in told.finder.committed()
    ]


def test_a_turn_lies_between_the_one_before_it_and_its_commit_until_it_is_understood() -> None:
    told = Told().sound(700).record(commit("a")).sound(300).record(commit("b", respond=True)).sound(100)
    assert turns(told) == [("a", 0, 700, 2), ("b", 700, 1_000, 4)]
    told.record(InputTranscribed(item_id="a", transcript="one"))
    assert turns(told) == [("b", 700, 1_000, 4)]
    told.record(InputTranscribed(item_id="b", transcript=""))
    assert turns(told) == [("b", 700, 1_000, 4)], "an answer to it is owed, and nobody knows the words"
    told.record(TurnBegun(turn=0), ResponseStarted(response_id="r", turn=0), ResponseSpoken(response_id="r", turn=0))
    assert turns(told) == []


@pytest.mark.parametrize(
    "fields",
    [
        {"by_model": True},
        {"has_audio": False},
        {"created": True},
        {"waits": True},
        {"overlap_deferred": True},
        {"transcribing": False, "transcript": "known", "respond": True},
    ],
)
def test_what_the_model_was_not_told_by_its_sound_is_not_heard_again(fields: dict[str, Any]) -> None:
    assert turns(Told().sound(700).record(commit("a", **fields))) == []


def test_of_an_endless_turn_the_end_is_heard_again() -> None:
    told = Told()
    for _ in range(150):
        told.sound(1_000)
    ((_, from_ms, until_ms, _),) = turns(told.record(commit("a")))
    assert (from_ms, until_ms) == (150_000 - LONGEST_MS, 150_000)


def test_the_sound_of_such_a_turn_is_kept_and_its_place_survives_being_stored() -> None:
    told = Told()
    for _ in range(3):
        told.sound(1_000)
    told.record(commit("a"))
    for _ in range(30):
        told.sound(1_000)
    assert told.finder.kept_after(told.session) == EntryId(0, 0)
    stored = msgspec.msgpack.decode(msgspec.msgpack.encode(told.finder.state()), type=FinderState)
    assert UtteranceFinder(stored).committed() == told.finder.committed()
    told.record(InputTranscribed(item_id="a", transcript="one"))
    assert told.finder.kept_after(told.session) > EntryId(0, 0)
