"""A refusal echoes the client's own event id and says only codes of the table."""

from __future__ import annotations

import pytest

from duplex_es.protocol import Heartbeat, RefuseCommand
from duplex_es.session.events import CommandRejected
from duplex_es.session.refusals import known_code, refuse
from tests.session.cast import answer, patient, typed

pytestmark = pytest.mark.unit


def test_a_refusal_echoes_the_clients_event_id() -> None:
    assert refuse(Heartbeat(event_id="evt_1"), "bad_event", "no", "type") == (
        CommandRejected(code="bad_event", message="no", param="type", event_id="evt_1"),
    )


def test_a_refusal_of_something_without_an_id_names_none() -> None:
    for said in (Heartbeat(), RefuseCommand(code="x", message="y"), object()):
        assert refuse(said, "bad_event", "no")[0].event_id is None


def test_a_code_that_is_not_in_the_table_is_never_said() -> None:
    assert refuse(Heartbeat(), "made_up", "no")[0].code == "duplex_error"
    assert known_code("made_up", "internal_error") == "internal_error"
    assert known_code("bad_audio", "internal_error") == "bad_audio"


def test_a_refused_command_changes_nothing_at_all() -> None:
    before = patient().given(*answer("Hello."))
    after = before.when(typed("")).refuses("bad_event", param="item.content").asks_for()
    assert after.session == before.session
