"""What an actor writes: silent facts ride along, decisions count down, checkpoints keep what no record holds."""

from __future__ import annotations

import msgpack
import msgspec
import pytest

from duplex_es.log.api import EntryId, Record
from duplex_es.protocol import Error, ErrorBody, Frame, ResponseOutputAudioDelta, SessionHeartbeatAck
from duplex_es.session.events import (
    AudioAppended,
    CommandRejected,
    Fact,
    HeartbeatAnswered,
    SocketChanged,
)
from duplex_es.session.facts import unpack_facts
from duplex_es.session.state import Session
from duplex_es.session.step import Decision
from workers.journal import Checkpoint, Journal, records

pytestmark = pytest.mark.unit

AT = EntryId(1, 7)
NOW_MS = 1_700_000_000_000
ATTACHED = SocketChanged(generation=1, attached=True)
SECOND = AudioAppended(samples=320, rate_hz=16_000)
HEARTBEAT = SessionHeartbeatAck(session_id="s")


def decision(*facts: Fact, frames: tuple[Frame, ...] = ()) -> Decision:
    return Decision(session=Session(), facts=facts, frames=frames)


def facts_of(record: Record) -> list[Fact]:
    raw = msgspec.msgpack.decode(record.body, type=dict[str, msgspec.Raw]).get("facts")
    return [] if raw is None else list(unpack_facts(msgspec.msgpack.decode(raw, type=list[msgspec.Raw])))


def held(journal: Journal) -> list[Fact]:
    return list(unpack_facts(msgspec.msgpack.decode(journal.checkpoint(), type=Checkpoint).facts))


def test_a_silent_fact_makes_no_record_and_rides_on_the_next() -> None:
    journal = Journal(4, AT)
    assert journal.take_in([decision(ATTACHED)], AT, NOW_MS) == []
    made = journal.take_in([decision(HeartbeatAnswered(), frames=(HEARTBEAT,))], EntryId(1, 9), NOW_MS)
    assert [facts_of(record) for record in made] == [[ATTACHED, HeartbeatAnswered()]]
    assert journal.seq == 5
    assert journal.take_in([decision(HeartbeatAnswered(), frames=(HEARTBEAT,))], AT, NOW_MS) != []
    assert held(journal) == []


def test_a_decision_counts_its_records_down_and_gives_the_facts_to_the_first() -> None:
    journal = Journal(0, AT)
    made = journal.take_in([decision(HeartbeatAnswered(), frames=(HEARTBEAT,) * 3)], AT, NOW_MS)
    bodies = [msgpack.unpackb(record.body) for record in made]
    assert [body["more"] for body in bodies] == [2, 1, 0]
    assert ["facts" in body for body in bodies] == [True, False, False]
    assert {body["consumed"] for body in bodies} == {"1-7"}
    assert {body["at_ms"] for body in bodies} == {NOW_MS}
    assert journal.seq == 3


def test_the_sound_of_a_delta_lies_beside_its_record() -> None:
    sound = ResponseOutputAudioDelta(
        response_id="r", item_id="i", output_index=0, content_index=0, delta=b"\x01\x02" * 50
    )
    (record,) = records([], [sound], AT, NOW_MS)
    assert record.audio == b"\x01\x02" * 50
    assert msgpack.unpackb(record.body)["frame"]["delta"] == b""


def test_appends_in_a_row_become_one_fact() -> None:
    journal = Journal(0, AT)
    for _ in range(3_000):
        journal.take_in([decision(SECOND)], AT, NOW_MS)
    assert held(journal) == [AudioAppended(samples=3_000 * 320, rate_hz=16_000)]


@pytest.mark.parametrize(
    "later",
    [
        AudioAppended(samples=320, rate_hz=24_000),
        AudioAppended(samples=320, rate_hz=16_000, is_speech=False),
        AudioAppended(samples=320, rate_hz=16_000, hint="hello"),
    ],
)
def test_appends_that_mean_something_else_stay_apart(later: Fact) -> None:
    journal = Journal(0, AT)
    journal.take_in([decision(SECOND)], AT, NOW_MS)
    journal.take_in([decision(later)], AT, NOW_MS)
    assert held(journal) == [SECOND, later]


def test_a_fact_between_two_appends_keeps_them_apart() -> None:
    journal = Journal(0, AT)
    for fact in (SECOND, ATTACHED, SECOND):
        journal.take_in([decision(fact)], AT, NOW_MS)
    assert held(journal) == [SECOND, ATTACHED, SECOND]


def test_a_checkpoint_is_due_a_while_after_the_first_thing_that_no_record_holds() -> None:
    journal = Journal(0, AT)
    assert journal.checkpoint_due_ms(1_000) is None
    journal.take_in([decision(ATTACHED)], AT, NOW_MS)
    journal.take_in([decision(SECOND)], AT, NOW_MS + 900)
    assert journal.checkpoint_due_ms(1_000) == NOW_MS + 1_000


def test_an_input_that_came_to_nothing_is_due_for_a_checkpoint_too() -> None:
    journal = Journal(0, AT)
    journal.take_in([decision()], EntryId(1, 8), NOW_MS)
    assert journal.checkpoint_due_ms(1_000) == NOW_MS + 1_000
    assert msgspec.msgpack.decode(journal.checkpoint(), type=Checkpoint).consumed == "1-8"


def test_a_signal_that_came_to_nothing_is_not() -> None:
    journal = Journal(0, AT)
    journal.take_in([decision()], AT, NOW_MS)
    assert journal.checkpoint_due_ms(1_000) is None


def test_a_record_or_a_checkpoint_makes_nothing_due_any_more() -> None:
    for save in (
        lambda journal: journal.checkpoint(),
        lambda journal: journal.take_in([decision(HeartbeatAnswered(), frames=(HEARTBEAT,))], AT, NOW_MS),
    ):
        journal = Journal(0, AT)
        journal.take_in([decision(ATTACHED)], AT, NOW_MS)
        save(journal)
        assert journal.checkpoint_due_ms(1_000) is None


def test_a_checkpoint_keeps_the_facts_held_until_a_record_takes_them() -> None:
    journal = Journal(12, AT)
    journal.take_in([decision(ATTACHED)], AT, NOW_MS)
    assert held(journal) == [ATTACHED]
    assert held(journal) == [ATTACHED]
    (record,) = journal.take_in([decision(HeartbeatAnswered(), frames=(HEARTBEAT,))], AT, NOW_MS)
    assert facts_of(record) == [ATTACHED, HeartbeatAnswered()]
    assert held(journal) == []


def test_a_checkpoint_says_up_to_where_it_is_good() -> None:
    journal = Journal(12, AT, [SECOND])
    saved = msgspec.msgpack.decode(journal.checkpoint(), type=Checkpoint)
    assert (saved.v, saved.seq, saved.consumed) == (1, 12, "1-7")


def test_a_refusal_is_a_record_like_any_other() -> None:
    rejected = CommandRejected(code="bad_event", message="no")
    frame = Error(error=ErrorBody(type="invalid_request_error", code="bad_event", message="no"))
    (record,) = records([rejected], [frame], AT, NOW_MS)
    assert facts_of(record) == [rejected]
    assert msgpack.unpackb(record.body)["frame"]["type"] == "error"


def test_several_decisions_are_written_as_one() -> None:
    journal = Journal(4, AT)
    made = journal.take_in(
        [decision(ATTACHED), decision(HeartbeatAnswered(), frames=(HEARTBEAT,)), decision(frames=(HEARTBEAT,))],
        EntryId(1, 9),
        NOW_MS,
    )
    assert [msgpack.unpackb(record.body)["more"] for record in made] == [1, 0]
    assert [facts_of(record) for record in made] == [[ATTACHED, HeartbeatAnswered()], []]
    assert journal.seq == 6
