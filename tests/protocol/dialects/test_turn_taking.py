"""Turn detection: what stock clients ask for, and what they are shown."""

from __future__ import annotations

from typing import Any

import pytest

from duplex_es.protocol import read_config, read_turn_detection
from duplex_es.protocol.dialects.turn_taking import (
    KEPT_AS,
    asked_turn_taking,
    auto_response_of,
    continued_turn_taking,
    shown_turn_taking,
    turn_based_detection,
)
from duplex_es.protocol.turn_detection import EAGERNESS_SILENCE_MS

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("eagerness", "silence_ms"), [("low", 800), ("medium", 500), ("auto", 500), ("high", 300), (None, 500), (7, 500)]
)
def test_a_semantic_detector_is_a_silence_as_long_as_it_is_patient(eagerness: object, silence_ms: int) -> None:
    changes, answers = asked_turn_taking({"type": "semantic_vad", "eagerness": eagerness})
    detector: Any = changes["turn_detection"]
    assert (detector["type"], detector["silence_duration_ms"], answers) == ("server_vad", silence_ms, True)
    assert set(EAGERNESS_SILENCE_MS) == {"low", "medium", "auto", "high"}


@pytest.mark.parametrize("wanted", [None, False])
def test_no_detection_means_that_nothing_is_answered_unasked(wanted: object) -> None:
    changes, answers = asked_turn_taking(wanted)
    assert changes == {"turn_detection": None, "overlap_policy": "listen_only", KEPT_AS: None}
    assert answers is False


def test_a_detector_may_leave_answering_to_the_client() -> None:
    changes, answers = asked_turn_taking({"type": "server_vad", "create_response": False})
    assert answers is False
    assert changes["turn_detection"] == {"type": "server_vad"}


def test_speech_that_must_not_interrupt_is_only_listened_to() -> None:
    wanted = {"type": "semantic_vad", "interrupt_response": False}
    changes, answers = asked_turn_taking(wanted)
    assert (changes["turn_detection"], changes["overlap_policy"], answers) == (None, "listen_only", True)
    assert changes[KEPT_AS] == wanted


def test_a_detector_keeps_only_what_the_session_knows_of_it() -> None:
    wanted = {
        "type": "server_vad",
        "threshold": 0.6,
        "prefix_padding_ms": 200,
        "silence_duration_ms": 700,
        "idle_timeout_ms": 6000,
        "interrupt_response": True,
        "create_response": True,
        "something_new": 1,
    }
    changes, _ = asked_turn_taking(wanted)
    assert changes["turn_detection"] == {
        "type": "server_vad",
        "threshold": 0.6,
        "prefix_padding_ms": 200,
        "silence_duration_ms": 700,
        "idle_timeout_ms": 6000,
    }


@pytest.mark.parametrize(("asked", "used"), [(0, 0.16), (0.15, 0.16), (0.2, 0.2), (-1, -1), ("x", "x")])
def test_a_threshold_too_low_for_a_native_model_is_raised(asked: object, used: object) -> None:
    changes, _ = asked_turn_taking({"type": "server_vad", "threshold": asked})
    detector: Any = changes["turn_detection"]
    assert detector["threshold"] == (pytest.approx(used) if isinstance(used, float) else used)


@pytest.mark.parametrize("wanted", [{"type": "telepathy"}, {"type": None}, "server_vad", True, []])
def test_a_detection_nobody_knows_is_left_to_be_refused(wanted: object) -> None:
    assert asked_turn_taking(wanted) == ({"turn_detection": wanted}, None)


@pytest.mark.parametrize(
    "wanted", [None, {"type": "server_vad"}, {"type": "semantic_vad"}, {"type": "server_vad", "threshold": 0}]
)
def test_what_is_asked_for_can_be_read_by_the_session(wanted: object) -> None:
    changes, _ = asked_turn_taking(wanted)
    config = read_config(changes)
    detection = config.turn_detection
    assert detection == read_turn_detection(changes)
    if detection:
        detection.for_lane(native=True)


def test_a_client_is_shown_what_it_asked_for_and_what_holds() -> None:
    kept = {"type": "semantic_vad", "eagerness": "low", "create_response": True, "interrupt_response": None}
    session: dict[str, Any] = {
        "turn_detection": {"type": "server_vad"},
        KEPT_AS: kept,
        "overlap_policy": "listen_only",
        "extra_body": {"auto_response": False},
    }
    assert shown_turn_taking(session) == {
        "type": "semantic_vad",
        "eagerness": "low",
        "create_response": False,
        "interrupt_response": False,
    }


def test_a_detector_is_shown_with_its_defaults_and_without_what_stock_clients_do_not_know() -> None:
    session: dict[str, Any] = {
        "turn_detection": {"type": "server_vad", "silence_duration_ms": 700, "min_speech_duration_ms": 96.0},
        "overlap_policy": "barge_in_on_speech",
        "extra_body": {},
    }
    assert shown_turn_taking(session) == {
        "type": "server_vad",
        "threshold": 0.5,
        "prefix_padding_ms": 300,
        "silence_duration_ms": 700,
        "create_response": True,
        "interrupt_response": True,
    }


def test_a_model_that_takes_turns_by_itself_is_a_semantic_detector() -> None:
    session: dict[str, Any] = {"turn_detection": None, "extra_body": {"auto_response": True}}
    assert shown_turn_taking(session) == {
        "type": "semantic_vad",
        "eagerness": "auto",
        "create_response": True,
        "interrupt_response": False,
    }


def test_manual_turns_are_shown_as_none() -> None:
    assert shown_turn_taking({"turn_detection": None, "extra_body": {"auto_response": False}}) is None
    assert shown_turn_taking({}) is None


def test_a_session_with_a_detector_answers_unless_told_not_to() -> None:
    assert auto_response_of({"turn_detection": {"type": "server_vad"}})
    assert not auto_response_of({"turn_detection": {"type": "server_vad"}, "extra_body": {"auto_response": False}})
    assert not auto_response_of({"turn_detection": None, "extra_body": {"auto_response": "yes"}})


def test_a_turn_based_model_is_told_who_answers_and_never_that_it_is_interrupted() -> None:
    kept = {"type": "semantic_vad", "eagerness": "low", "create_response": False, "interrupt_response": True}
    detector = turn_based_detection(kept)
    assert detector is not None
    assert (detector["silence_duration_ms"], detector["create_response"]) == (800, False)
    read = read_turn_detection({"turn_detection": detector})
    assert read
    assert read.for_lane(native=False).interrupt_response is False
    assert turn_based_detection({"type": "server_vad", "interrupt_response": False}) == {"type": "server_vad"}
    assert turn_based_detection(None) is None


def later(kept: object, wanted: dict[str, Any]) -> Any:
    """What an update comes to that names only this of turn detection, after one that left ``kept``."""
    return continued_turn_taking(dict(asked_turn_taking(wanted)[0]), kept)


def test_what_a_later_update_does_not_name_stays_as_it_was() -> None:
    """V23: a new threshold alone turns nothing off and resets nothing."""
    kept = {"type": "server_vad", "threshold": 0.4, "silence_duration_ms": 900, "create_response": False}
    found = later(kept, {"threshold": 0.7})
    assert found["turn_detection"] == {"type": "server_vad", "threshold": 0.7, "silence_duration_ms": 900}
    assert found[KEPT_AS] == {**kept, "threshold": 0.7}
    assert found["extra_body"] == {"auto_response": False}
    assert "silence_duration_ms" not in later(kept, {"silence_duration_ms": None})["turn_detection"]
    assert "extra_body" not in later(kept, {"create_response": True})


def test_speech_goes_on_not_to_interrupt_until_it_may() -> None:
    kept = {"type": "server_vad", "interrupt_response": False, "silence_duration_ms": 900}
    still = later(kept, {"type": "server_vad", "threshold": 0.7})
    assert (still["turn_detection"], still["overlap_policy"]) == (None, "listen_only")
    again = later(kept, {"interrupt_response": True})
    assert again["turn_detection"] == {"type": "server_vad", "silence_duration_ms": 900}
    assert "overlap_policy" not in again


def test_another_kind_of_detection_keeps_what_both_know() -> None:
    kept = {"type": "server_vad", "silence_duration_ms": 900, "create_response": False}
    found = later(kept, {"type": "semantic_vad", "eagerness": "high"})
    assert found["turn_detection"]["silence_duration_ms"] == 300
    assert found[KEPT_AS] == {"type": "semantic_vad", "eagerness": "high", "create_response": False}
    assert later(found[KEPT_AS], {"eagerness": "low"})["turn_detection"]["silence_duration_ms"] == 800


def test_an_update_without_turn_detection_or_with_none_is_left_alone() -> None:
    kept = {"type": "server_vad", "threshold": 0.4}
    for update in ({"instructions": "x"}, asked_turn_taking(None)[0]):
        assert continued_turn_taking(update, kept) == update
    assert continued_turn_taking({KEPT_AS: kept}, None) == {KEPT_AS: kept}
