"""Responses: statuses and reasons, metadata and usage, as stock clients validate them."""

from __future__ import annotations

from typing import Any

import pytest

from duplex_es.protocol import ResponseObject, StatusDetails, Usage
from duplex_es.protocol.dialects.responses import (
    client_metadata,
    output_modalities,
    stock_response,
    token_usage,
    transcription_usage,
)
from tests.protocol.dialects import samples

pytestmark = pytest.mark.unit


def ended(status: str, reason: str | None = None, **fields: Any) -> dict[str, Any]:
    """A response that ended like this, as it is shown."""
    details = None if reason is None else StatusDetails(type=status, reason=reason)
    return stock_response(ResponseObject(id="r", status=status, status_details=details, **fields), ended=True)


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        ("barge_in", "turn_detected"),
        ("turn_detected", "turn_detected"),
        ("new_response", "turn_detected"),
        (None, "turn_detected"),
        ("client_cancelled", "client_cancelled"),
        ("output_audio_buffer_clear", "client_cancelled"),
        ("session_close", "client_cancelled"),
    ],
)
def test_an_answer_was_cut_by_the_client_or_by_speech(reason: str | None, shown: str) -> None:
    made = ended("cancelled", reason)
    assert made["status"] == "cancelled"
    assert made["status_details"] == {"type": "cancelled", "reason": shown}


def test_a_failed_answer_names_its_error() -> None:
    made = ended("failed", "runtime_append_failed")
    assert made["status_details"] == {
        "type": "failed",
        "error": {"type": "server_error", "code": "runtime_append_failed"},
    }
    assert ended("failed")["status_details"]["error"]["code"] == "response_error"
    details = StatusDetails(type="failed", reason="input_backpressure", error={"message": "Slow down."})
    limited: Any = stock_response(ResponseObject(status="failed", status_details=details), ended=True)
    assert limited["status_details"]["error"] == {
        "type": "rate_limit_error",
        "code": "input_backpressure",
        "message": "Slow down.",
    }


def test_a_completed_answer_has_no_details() -> None:
    assert "status_details" not in ended("completed")
    assert "status_details" not in ended("completed", "stop")
    assert "status_details" not in stock_response(samples.created().response)


def test_a_status_nobody_knows_is_incomplete_only_at_the_end() -> None:
    assert ended("listening")["status_details"] == {"type": "incomplete", "reason": "content_filter"}
    assert ended("incomplete", "max_output_tokens")["status_details"]["reason"] == "max_output_tokens"
    assert stock_response(ResponseObject())["status"] == "in_progress"


def test_the_metadata_of_the_client_comes_back_untouched() -> None:
    theirs = {"client_event_id": "evt_1", "trace": "turn-3"}
    assert stock_response(samples.created(**theirs).response)["metadata"] == theirs
    assert stock_response(samples.done(**theirs).response, ended=True)["metadata"] == theirs


def test_metadata_of_the_runtime_alone_is_none() -> None:
    assert "metadata" not in stock_response(samples.created().response)
    assert "metadata" not in stock_response(samples.done().response, ended=True)
    assert client_metadata(None, created=True) == {}


def test_only_strings_are_metadata() -> None:
    assert client_metadata({"a": "1", "b": 2, "c": {"d": "e"}, "f": None}, created=True) == {"a": "1"}


def test_a_name_the_runtime_uses_too_is_kept_where_the_frame_tells_them_apart() -> None:
    assert client_metadata({"type": "theirs", "duplex_event": {}}, created=True) == {"type": "theirs"}
    told = {"type": "response.done", "epoch": 0, "client_metadata": {"type": "theirs", "n": 1}}
    assert client_metadata(told, created=False) == {"type": "theirs"}


def test_an_answer_that_nobody_counted_cost_nothing() -> None:
    usage: Any = ended("completed")["usage"]
    assert (usage["total_tokens"], usage["input_tokens"], usage["output_tokens"]) == (0, 0, 0)
    assert usage["input_token_details"]["cached_tokens"] == 0
    assert usage["output_token_details"] == {"text_tokens": 0, "audio_tokens": 0}


def test_tokens_are_added_up_and_their_details_kept() -> None:
    counted = Usage(input_tokens=12, output_tokens=30, output_token_details={"audio_tokens": 28})
    usage: Any = token_usage(counted)
    assert usage["total_tokens"] == 42
    assert usage["output_token_details"] == {"text_tokens": 0, "audio_tokens": 28}
    assert token_usage(Usage(total_tokens=7))["total_tokens"] == 7


def test_a_response_begins_without_usage() -> None:
    assert "usage" not in stock_response(samples.created().response)


def test_a_transcription_is_paid_by_the_second_unless_tokens_were_counted() -> None:
    from msgspec import UNSET

    assert transcription_usage(UNSET) == {"type": "duration", "seconds": 0}
    assert transcription_usage(Usage(type="duration", seconds=2.5)) == {"type": "duration", "seconds": 2.5}
    assert transcription_usage(Usage(total_tokens=5, input_tokens=3, output_tokens=2)) == {
        "type": "tokens",
        "total_tokens": 5,
        "input_tokens": 3,
        "output_tokens": 2,
        "input_token_details": {"text_tokens": 0, "audio_tokens": 0},
    }


@pytest.mark.parametrize(
    ("modalities", "shown"), [(["text", "audio"], ["audio"]), (["text"], ["text"]), ([], ["audio"])]
)
def test_one_kind_of_output_is_named(modalities: list[str], shown: list[str]) -> None:
    assert output_modalities(modalities) == shown


def test_the_beta_names_every_modality() -> None:
    shown = stock_response(samples.created().response, beta=True)
    assert shown["modalities"] == ["text", "audio"]
    assert "output_modalities" not in shown


def test_a_conversation_is_named_where_it_is_known() -> None:
    assert stock_response(ResponseObject(conversation_id="conv_1"))["conversation_id"] == "conv_1"
    assert "conversation_id" not in stock_response(ResponseObject(conversation_id=None))
