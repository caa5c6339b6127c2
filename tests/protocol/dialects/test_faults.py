"""Errors: the codes stock clients branch on."""

from __future__ import annotations

import pytest

from duplex_es.protocol import ERRORS
from duplex_es.protocol.dialects import CODES, stock_code
from duplex_es.protocol.dialects.faults import stock_error
from tests.protocol.dialects import samples

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("code", "stock"),
    [
        ("input_audio_buffer_empty", "input_audio_buffer_commit_empty"),
        ("response_already_active", "conversation_already_has_active_response"),
        ("response_not_active", "response_cancel_not_active"),
        ("item_not_found", "item_retrieve_invalid_item_id"),
        ("item_exists", "item_create_duplicate_item_id"),
        ("resource_exhausted", "rate_limit_exceeded"),
        ("duplex_session_busy", "rate_limit_exceeded"),
        ("session_resume_expired", "session_expired"),
        ("unknown_event", "invalid_value"),
        ("bad_event", "invalid_event"),
        ("invalid_json", "invalid_event"),
        ("unsupported_turn_detection", "unsupported_turn_detection"),
        ("internal_error", "internal_error"),
    ],
)
def test_a_code_is_the_one_stock_clients_know(code: str, stock: str) -> None:
    assert stock_code(code) == stock
    assert stock_error(samples.error(code).error)["code"] == stock


def test_only_codes_of_this_service_have_an_alias() -> None:
    assert set(CODES) <= set(ERRORS)
    assert not set(CODES.values()) & set(ERRORS)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("conversation.item.retrieve", "item_retrieve_invalid_item_id"),
        ("conversation.item.truncate", "item_truncate_invalid_item_id"),
        ("conversation.item.delete", "item_delete_invalid_item_id"),
    ],
)
def test_a_missing_item_is_told_by_the_command_that_named_it(command: str, code: str) -> None:
    assert stock_code("item_not_found", f"{command}: There is no item 'x'.") == code


def test_an_item_that_cannot_be_followed_was_not_retrieved() -> None:
    error = samples.error("item_not_found", "There is no item 'x' to follow.", param="previous_item_id")
    assert stock_error(error.error)["code"] == "item_not_found"


def test_a_cancel_of_nothing_says_so_in_the_words_clients_look_for() -> None:
    bare = stock_error(samples.error("response_not_active", "No response is active.").error)
    full = stock_error(samples.error("response_not_active", "Cancellation failed: No response is active.").error)
    assert bare["message"] == full["message"] == "Cancellation failed: No response is active."


def test_an_error_has_its_class_and_names_the_event_it_answers() -> None:
    error = stock_error(samples.error("bad_event", "item.type: no.", param="item.type", event_id="evt_1").error)
    assert error == {
        "type": "invalid_request_error",
        "code": "invalid_event",
        "message": "item.type: no.",
        "param": "item.type",
        "event_id": "evt_1",
    }


def test_what_an_error_does_not_say_is_left_out() -> None:
    assert set(stock_error(samples.error("bad_audio", param=None, event_id=None).error)) == {"type", "code", "message"}
