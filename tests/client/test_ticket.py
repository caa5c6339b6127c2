"""A session written down."""

from __future__ import annotations

import pytest

from duplex_es.client.ticket import ResumeTicket

pytestmark = pytest.mark.unit

TICKET = ResumeTicket(
    session_id="s",
    resume_token="rt",
    after_seq=7,
    model="m",
    incarnation=2,
    input_audio=("pcm_f32le", 24_000),
    appended_bytes=640,
    session_info={"id": "s", "capabilities": {"chunk_period_ms": 80}},
)


def test_a_ticket_read_back_is_the_same_ticket_and_fits_on_one_line() -> None:
    text = TICKET.to_text()
    assert ResumeTicket.from_text(text) == TICKET
    assert "\n" not in text


def test_fields_of_a_later_version_of_the_same_shape_do_no_harm() -> None:
    text = TICKET.to_text().replace("{", '{"colour":"red",', 1)
    assert ResumeTicket.from_text(text) == TICKET


@pytest.mark.parametrize("text", ["", "rt_123", "{}", '{"session_id": 5}'])
def test_what_is_no_ticket_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no resume ticket"):
        ResumeTicket.from_text(text)


def test_a_ticket_of_another_version_is_refused_by_its_number() -> None:
    with pytest.raises(ValueError, match="version 2"):
        ResumeTicket.from_text(TICKET.to_text().replace('"v":1', '"v":2'))
