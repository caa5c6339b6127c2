"""Positions and repeats, as other services are known to have got them wrong; each test has the number of its case."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duplex_es.client.config import SessionConfig
from duplex_es.client.machine import ClientMachine
from tests.support.realtime_server import numbered, session_created

pytestmark = pytest.mark.unit

_lives = st.integers(0, 9)


def _resumed(life: int) -> dict[str, Any]:
    return {"type": "session.resumed", "session_id": "sess_1", "incarnation": life, "resume_token": f"rt_{life}"}


def _without_token(life: int) -> dict[str, Any]:
    return {"type": "session.resumed", "session_id": "sess_1", "incarnation": life}


_messages = st.one_of(
    _lives.map(_resumed),
    _lives.map(_without_token),
    st.integers(1, 40).map(numbered),
)


@given(st.lists(_messages, max_size=40))
def test_a_position_is_only_ever_one_that_a_message_gave(messages: list[dict[str, Any]]) -> None:
    """E12: the life and the token of a position are never put together from two messages."""
    subject = ClientMachine(model="cascade", config=SessionConfig())
    subject.receive(json.dumps({**session_created(), "incarnation": 0, "resume_token": "rt_0"}))
    given_pairs, highest = {(0, "rt_0")}, 0
    for message in messages:
        subject.receive(json.dumps(message))
        if "resume_token" in message:
            given_pairs.add((message["incarnation"], message["resume_token"]))
        highest = max(highest, message.get("server_event_seq", 0))
        asked = subject.resume_command()
        # Without a token there is no position: such a session is not resumed at all.
        assert asked["resume_token"] is None or (asked["incarnation"], asked["resume_token"]) in given_pairs, message
        assert asked["last_received_server_event_seq"] == highest
