"""The error table: complete, and the only source of codes."""

from __future__ import annotations

import pickle

import pytest

from duplex_es.protocol import ERRORS, EXTENSION_CODES, ProtocolError

pytestmark = pytest.mark.unit

INVALID_REQUEST = (
    "bad_event bad_audio config_timeout invalid_json event_too_large unknown_event realtime_input_failed "
    "invalid_request_error unsupported unsupported_turn_detection server_vad_requires_native_duplex "
    "server_vad_manual_commit_unsupported unsupported_audio_format invalid_video_frames "
    "unsupported_ref_audio_path ref_audio_required model_update_unsupported voice_update_after_audio_unsupported "
    "ref_audio_update_unsupported native_duplex_mode_update_unsupported instructions_update_unsupported "
    "session_update_aborted invalid_duplex_runtime_config unsupported_nemotron_duplex_mode "
    "native_text_append_unsupported input_audio_buffer_empty response_already_active response_not_active "
    "response_create_without_input unsupported_native_response_options barge_in_unsupported missing_item_id "
    "item_not_found invalid_function_call_output playback_item_mismatch playback_item_not_found "
    "playback_ack_too_late invalid_event_ack invalid_session_resume session_resume_expired "
    "unsupported_session_resume invalid_resume_token session_resume_conflict runtime_touch_unsupported "
    "unsupported_response_modality stale_fence not_found invalid_argument invalid_capability timeout "
    "failed_precondition duplex_error session_exists item_exists stale_function_call_output"
)
SERVER = (
    "internal_error server_vad_initialization_failed server_vad_inference_failed server_vad_unavailable "
    "runtime_resume_failed runtime_resume_unsupported runtime_touch_failed runtime_open_failed "
    "runtime_open_unsupported runtime_contract_invalid runtime_append_failed runtime_append_task_failed "
    "runtime_signal_failed runtime_close_failed runtime_abort_failed runtime_data_plane_stream_failed "
    "runtime_data_plane_text_without_audio runtime_native_stage_role_required runtime_native_runner_kv_required "
    "chat_error response_error commit_aborted log_unavailable worker_lost context_exhausted"
)
RATE_LIMIT = "input_backpressure resource_exhausted duplex_session_busy"


def test_the_table_holds_every_code_of_the_contract_and_some_of_our_own() -> None:
    assert set(ERRORS) == set(f"{INVALID_REQUEST} {SERVER} {RATE_LIMIT}".split())
    ours = {"log_unavailable", "worker_lost", "context_exhausted", "session_exists"}
    assert ours | {"item_exists", "stale_function_call_output"} == EXTENSION_CODES


@pytest.mark.parametrize(
    ("codes", "error_type", "fault"),
    [
        (INVALID_REQUEST, "invalid_request_error", "client"),
        (SERVER, "server_error", "server"),
        (RATE_LIMIT, "rate_limit_error", "capacity"),
    ],
    ids=["invalid_request_error", "server_error", "rate_limit_error"],
)
def test_every_code_has_its_class_and_fault(codes: str, error_type: str, fault: str) -> None:
    assert {(ERRORS[code].type, ERRORS[code].fault) for code in codes.split()} == {(error_type, fault)}


def test_a_row_is_filed_under_its_own_code() -> None:
    assert all(code == row.code for code, row in ERRORS.items())


def test_what_closes_an_open_session_also_ends_a_handshake() -> None:
    assert [row.code for row in ERRORS.values() if row.closes and not row.closes_in_handshake] == []


@pytest.mark.parametrize("code", ["bad_event", "invalid_json", "ref_audio_required", "invalid_request_error"])
def test_some_mistakes_end_only_a_handshake(code: str) -> None:
    assert (ERRORS[code].closes, ERRORS[code].closes_in_handshake) == (False, True)


@pytest.mark.parametrize("code", ["unsupported_turn_detection", "unsupported_audio_format", "event_too_large"])
def test_settings_refused_by_their_syntax_may_be_sent_again_on_the_same_socket(code: str) -> None:
    assert not ERRORS[code].closes_in_handshake


@pytest.mark.parametrize("code", ["config_timeout", "session_resume_expired", "resource_exhausted", "log_unavailable"])
def test_some_errors_end_the_connection_at_any_time(code: str) -> None:
    assert ERRORS[code].closes


def test_everything_refused_for_capacity_may_be_tried_again() -> None:
    assert all(row.retryable for row in ERRORS.values() if row.fault == "capacity")


def test_an_unknown_code_cannot_be_said() -> None:
    with pytest.raises(KeyError):
        ProtocolError("no_such_code", "")


def test_an_error_survives_being_sent_between_processes() -> None:
    error = ProtocolError("bad_audio", "not base64", "audio", "evt_1")
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.code, copy.message, copy.param, copy.event_id) == ("bad_audio", "not base64", "audio", "evt_1")


def test_correlating_an_error_keeps_all_else() -> None:
    error = ProtocolError("bad_event", "audio: missing", "audio").with_event_id("evt_2")
    assert (error.code, error.message, error.param, error.event_id) == ("bad_event", "audio: missing", "audio", "evt_2")
    assert str(error) == "bad_event: audio: missing"
