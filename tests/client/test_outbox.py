"""What is held until it has arrived."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duplex_es.client.outbox import Outbox, Said

pytestmark = pytest.mark.unit


def holding(*ids: str, limit_bytes: int = 1_000) -> Outbox:
    subject = Outbox(limit_bytes)
    for event_id in ids:
        subject.add(Said(event_id, f"<{event_id}>", is_probe=event_id.startswith("beat")))
    return subject


def test_what_came_after_the_last_arrived_event_is_left_in_order() -> None:
    subject = holding("a", "b", "c", "d")
    assert subject.arrived("b")
    assert subject.messages() == ["<c>", "<d>"]


def test_when_nothing_is_known_to_have_arrived_all_is_left() -> None:
    subject = holding("a", "b")
    assert not subject.arrived(None)
    assert not subject.arrived("from another process")
    assert subject.messages() == ["<a>", "<b>"]


def test_an_answered_probe_proves_itself_and_what_was_said_before_it() -> None:
    subject = holding("a", "beat1", "b", "beat2", "c")
    subject.probe_answered()
    assert subject.messages() == ["<b>", "<beat2>", "<c>"]
    subject.probe_answered()
    subject.probe_answered()
    assert subject.messages() == ["<c>"]


def test_beyond_its_limit_the_oldest_are_let_go_and_counted() -> None:
    subject = holding("a", "b", "c", limit_bytes=7)
    assert subject.messages() == ["<b>", "<c>"]
    assert subject.forgotten_count == 1


def test_a_later_event_that_has_arrived_proves_those_that_were_let_go() -> None:
    subject = holding("a", "b", "c", limit_bytes=7)
    subject.arrived("elsewhere")
    assert subject.forgotten_count == 1
    subject.arrived("b")
    assert subject.forgotten_count == 0
    probed = holding("a", "b", "beat", limit_bytes=10)
    assert probed.forgotten_count == 1
    probed.probe_answered()
    assert probed.forgotten_count == 0


def test_one_event_larger_than_the_limit_is_held_all_the_same() -> None:
    assert holding("abc", limit_bytes=2).messages() == ["<abc>"]


def test_cleared_it_holds_nothing_and_its_size_starts_over() -> None:
    subject = holding("a", "b", limit_bytes=7)
    subject.clear()
    for event_id in ("c", "d"):
        subject.add(Said(event_id, f"<{event_id}>"))
    assert subject.messages() == ["<c>", "<d>"]
    assert subject.forgotten_count == 0


@given(st.integers(1, 40), st.data())
def test_after_any_loss_the_two_sides_together_have_each_event_once(count: int, data: st.DataObject) -> None:
    """A server that takes any prefix of what it is sent, over any number of broken connections."""
    ids = [f"e{n}" for n in range(count)]
    subject, server, said = Outbox(), list[str](), 0
    while said < count:
        batch = data.draw(st.integers(1, count - said))
        for event_id in ids[said : said + batch]:
            subject.add(Said(event_id, event_id))
        said += batch
        in_flight = subject.messages()
        arrived = data.draw(st.integers(0, len(in_flight)))
        server += in_flight[:arrived]
        subject.arrived(server[-1] if server else None)
    server += subject.messages()
    assert server == ids
