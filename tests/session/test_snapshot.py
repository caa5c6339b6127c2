"""A packed state comes back as it was, also where another build packed it; what cannot be read is said to be so."""

from __future__ import annotations

from typing import Any

import msgpack
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings

from duplex_es.session import snapshot
from duplex_es.session.facts import unpack_facts
from duplex_es.session.snapshot import SnapshotUnreadable, pack_session, unpack_session
from duplex_es.session.state import Session
from duplex_es.session.step import fold, step
from tests.session.programs import Move, opening, play
from tests.session.test_programs import numbers, programs, st
from tests.session.test_recordings import RECORDINGS, read
from tests.support.states import digest_of

pytestmark = pytest.mark.unit


def recorded_states() -> list[Session]:
    """The state after every decision of every recorded call."""
    states = []
    for path in RECORDINGS:
        session = Session()
        for _, record in read(path):
            if isinstance(record.facts, list):
                session = fold(unpack_facts(record.facts), session)
                states.append(session)
    return states


def check_round_trip(session: Session) -> None:
    again = unpack_session(pack_session(session))
    assert again == session
    assert digest_of(again) == digest_of(session)


def test_every_state_of_a_recorded_call_comes_back_as_it_was() -> None:
    states = recorded_states()
    assert len(states) > 80
    for session in states:
        check_round_trip(session)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.tuples(numbers, numbers), programs)
def test_every_state_of_any_life_comes_back_and_goes_on_alike(start: tuple[int, int], program: list[Move]) -> None:
    session = step(Session(), opening(*start), 1_000).session
    check_round_trip(session)
    for move in program:
        said = play(session, move)
        decision = step(session, said, 1_000)
        assert step(unpack_session(pack_session(session)), said, 1_000) == decision
        session = decision.session
        check_round_trip(session)


def packed(state: dict[str, Any], version: int = snapshot.VERSION) -> bytes:
    """A snapshot written without the code under test."""
    return bytes(msgpack.packb({"v": version, "session": state}))


def test_a_snapshot_is_a_plain_map_with_a_version() -> None:
    read_back = msgpack.unpackb(pack_session(Session(id="sess_1", epoch=3)))
    assert read_back == {"v": 1, "session": {"id": "sess_1", "epoch": 3}}


def test_fields_that_an_older_build_did_not_have_get_their_defaults() -> None:
    assert unpack_session(packed({"id": "sess_1"})) == Session(id="sess_1")


def test_fields_that_a_newer_build_added_are_left_out() -> None:
    assert unpack_session(packed({"id": "sess_1", "mood": "sunny", "input": {"warmth": 3}})) == Session(id="sess_1")


def test_an_older_version_is_brought_up_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    def name_it(state: dict[str, Any]) -> dict[str, Any]:
        return {**state, "id": state["name"]}

    def count_twice(state: dict[str, Any]) -> dict[str, Any]:
        return {**state, "epoch": state["epoch"] * 2}

    monkeypatch.setattr(snapshot, "VERSION", 3)
    monkeypatch.setattr(snapshot, "UPCASTS", {1: name_it, 2: count_twice})
    items = [{"id": "item_1", "marks": [[3, 100]], "role": "user"}]
    session = unpack_session(packed({"name": "sess_1", "epoch": 2, "items": items}, version=1))
    assert (session.id, session.epoch, session.items[0].marks) == ("sess_1", 4, ((3, 100),))
    assert unpack_session(packed({"epoch": 2}, version=2)).epoch == 4
    assert unpack_session(pack_session(session)) == session


def test_the_steps_lead_from_every_version_there_ever_was_to_this_one() -> None:
    assert sorted(snapshot.UPCASTS) == list(range(1, snapshot.VERSION))


@pytest.mark.parametrize(
    "unreadable",
    [
        packed({"id": "sess_1"}, version=snapshot.VERSION + 1),
        packed({"id": "sess_1"}, version=0),
        packed({"id": 7}),
        b"\xc1",
        b"",
        msgpack.packb({"v": 1}),
        msgpack.packb([1, {}]),
    ],
    ids=["later", "unknown", "wrong type", "damaged", "empty", "no state", "no map"],
)
def test_what_cannot_be_read_is_said_and_not_guessed(unreadable: bytes) -> None:
    with pytest.raises(SnapshotUnreadable):
        unpack_session(unreadable)


def test_a_packed_state_may_lie_within_another_message() -> None:
    outer = msgspec.msgpack.encode({"state": msgspec.Raw(pack_session(Session(id="sess_1")))})
    inner = msgspec.msgpack.decode(outer, type=dict[str, msgspec.Raw])["state"]
    assert unpack_session(inner) == Session(id="sess_1")
