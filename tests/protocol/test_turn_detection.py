"""Turn detection: its syntax and ranges, its two spellings, and what it means with the overlap policy."""

from __future__ import annotations

import pytest
from msgspec import UNSET

from duplex_es.protocol import ProtocolError, TurnDetection, read_turn_detection, settle_overlap_policy

pytestmark = pytest.mark.unit

VAD: dict[str, object] = {"type": "server_vad"}


def refusal(raw: dict[str, object]) -> ProtocolError:
    """The error that reading ``raw`` ends in."""
    with pytest.raises(ProtocolError) as caught:
        read_turn_detection(raw)
    return caught.value


def test_nothing_said_changes_nothing_and_null_takes_it_away() -> None:
    assert read_turn_detection({}) is UNSET
    assert read_turn_detection({"turn_detection": None}) is None
    assert read_turn_detection({"audio": {"input": {"turn_detection": None}}}) is None


@pytest.mark.parametrize("raw", [{"turn_detection": VAD}, {"audio": {"input": {"turn_detection": VAD}}}])
def test_a_bare_detector_has_the_default_values_under_both_spellings(raw: dict[str, object]) -> None:
    assert read_turn_detection(raw) == TurnDetection(
        threshold=0.5, prefix_padding_ms=300, silence_duration_ms=500, create_response=True
    )


def test_every_field_is_read() -> None:
    said = {
        "type": "server_vad",
        "threshold": 1,
        "prefix_padding_ms": 0,
        "silence_duration_ms": 1,
        "create_response": False,
        "interrupt_response": False,
        "min_speech_duration_ms": 0.5,
    }
    read = read_turn_detection({"turn_detection": said})
    assert isinstance(read, TurnDetection)
    assert read.to_wire() == said


@pytest.mark.parametrize(
    "wrong",
    [
        {"type": "model_native"},
        {"type": None},
        {},
        {"threshold": 0.6},
        {"type": "server_vad", "eagerness": "auto"},
        {"type": "server_vad", "threshold": -0.1},
        {"type": "server_vad", "threshold": 1.1},
        {"type": "server_vad", "threshold": True},
        {"type": "server_vad", "threshold": "0.5"},
        {"type": "server_vad", "threshold": None},
        {"type": "server_vad", "prefix_padding_ms": -1},
        {"type": "server_vad", "prefix_padding_ms": 1.5},
        {"type": "server_vad", "silence_duration_ms": 0},
        {"type": "server_vad", "silence_duration_ms": True},
        {"type": "server_vad", "create_response": 1},
        {"type": "server_vad", "interrupt_response": "no"},
        {"type": "server_vad", "min_speech_duration_ms": -1},
        "server_vad",
        False,
        [],
    ],
)
def test_what_is_no_detector_is_refused(wrong: object) -> None:
    error = refusal({"turn_detection": wrong})
    assert (error.code, error.param) == ("unsupported_turn_detection", "turn_detection")


def test_a_refusal_names_the_field_and_its_rule() -> None:
    error = refusal({"turn_detection": {"type": "server_vad", "threshold": 2}})
    assert error.message == "turn_detection.threshold must be a number from 0 to 1"


def both(one: object, other: object) -> dict[str, object]:
    """Settings with both spellings."""
    return {"turn_detection": one, "audio": {"input": {"turn_detection": other}}}


@pytest.mark.parametrize(
    ("one", "other", "interrupts"),
    [
        (VAD, {**VAD, "threshold": 0.5}, UNSET),
        (VAD, {**VAD, "interrupt_response": False}, False),
        ({**VAD, "interrupt_response": True}, VAD, True),
    ],
)
def test_two_spellings_agree_after_their_defaults(one: object, other: object, interrupts: object) -> None:
    read = read_turn_detection(both(one, other))
    assert isinstance(read, TurnDetection)
    assert read.interrupt_response is interrupts


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (VAD, {**VAD, "threshold": 0.6}),
        (VAD, None),
        (None, VAD),
        ({**VAD, "interrupt_response": True}, {**VAD, "interrupt_response": False}),
    ],
)
def test_two_spellings_that_disagree_are_refused(one: object, other: object) -> None:
    assert "disagree" in refusal(both(one, other)).message


def test_two_spellings_may_both_be_null() -> None:
    assert read_turn_detection(both(None, None)) is None


@pytest.mark.parametrize(
    ("native", "interrupts", "minimum"), [(True, True, 96.0), (False, False, 0.0)], ids=["native", "turn-based"]
)
def test_the_kind_of_model_fills_in_the_rest(native: bool, interrupts: bool, minimum: float) -> None:
    settled = TurnDetection().for_lane(native=native)
    assert (settled.interrupt_response, settled.min_speech_duration_ms) == (interrupts, minimum)
    assert settled.for_lane(native=True) == settled if native else True


@pytest.mark.parametrize(
    "detector",
    [
        TurnDetection(interrupt_response=False),
        TurnDetection(create_response=False),
        TurnDetection(threshold=0.15),
    ],
)
def test_a_native_model_refuses_what_it_cannot_do(detector: TurnDetection) -> None:
    with pytest.raises(ProtocolError) as caught:
        detector.for_lane(native=True)
    assert (caught.value.code, caught.value.param) == ("unsupported_turn_detection", "turn_detection")


def test_a_turn_based_model_cannot_be_interrupted() -> None:
    with pytest.raises(ProtocolError) as caught:
        TurnDetection(interrupt_response=True).for_lane(native=False)
    assert caught.value.code == "server_vad_requires_native_duplex"


def test_a_turn_based_model_knows_no_minimum_of_speech() -> None:
    with pytest.raises(ProtocolError, match="min_speech_duration_ms"):
        TurnDetection(min_speech_duration_ms=0).for_lane(native=False)


def test_a_turn_based_model_may_leave_responses_to_the_client() -> None:
    assert TurnDetection(create_response=False).for_lane(native=False).create_response is False


@pytest.mark.parametrize(
    ("said", "policy", "current", "native", "settled"),
    [
        (TurnDetection(), UNSET, None, True, "barge_in_on_speech"),
        (TurnDetection(), UNSET, None, False, "listen_only"),
        (TurnDetection(), "barge_in_on_speech", None, True, "barge_in_on_speech"),
        (None, UNSET, TurnDetection(), True, "listen_only"),
        (None, "listen_only", TurnDetection(), True, "listen_only"),
        (UNSET, UNSET, TurnDetection(), True, UNSET),
        (UNSET, UNSET, None, True, UNSET),
        (UNSET, "barge_in_on_speech", TurnDetection(), True, "barge_in_on_speech"),
        (UNSET, "listen_only", None, True, "listen_only"),
    ],
)
def test_turn_detection_settles_the_overlap_policy(
    said: TurnDetection | None, policy: str, current: TurnDetection | None, native: bool, settled: object
) -> None:
    assert settle_overlap_policy(said, policy, current=current, native=native) == settled


@pytest.mark.parametrize(
    ("said", "policy", "current", "native"),
    [
        (TurnDetection(), "listen_only", None, True),
        (TurnDetection(), "barge_in_on_speech", None, False),
        (None, "barge_in_on_speech", TurnDetection(), True),
        (UNSET, "barge_in_on_speech", None, True),
        (UNSET, "listen_only", TurnDetection(), True),
    ],
)
def test_a_policy_against_the_turn_detection_is_refused(
    said: TurnDetection | None, policy: str, current: TurnDetection | None, native: bool
) -> None:
    with pytest.raises(ProtocolError) as caught:
        settle_overlap_policy(said, policy, current=current, native=native)
    assert (caught.value.code, caught.value.param) == ("unsupported_turn_detection", "turn_detection")


# -- semantic detection, and callers who say nothing ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("eagerness", "silence_ms"), [(None, 500), ("auto", 500), ("medium", 500), ("low", 800), ("high", 300)]
)
def test_a_semantic_detector_is_one_that_waits_the_longer_the_less_eager_it_is(
    eagerness: str | None, silence_ms: int
) -> None:
    said: dict[str, object] = {"type": "semantic_vad"} | ({} if eagerness is None else {"eagerness": eagerness})
    read = read_turn_detection({"turn_detection": {**said, "create_response": False}})
    assert isinstance(read, TurnDetection)
    assert (read.type, read.silence_duration_ms, read.create_response) == ("server_vad", silence_ms, False)


@pytest.mark.parametrize("wrong", [{"eagerness": "keen"}, {"eagerness": 1}, {"threshold": 0.5}, {"create_response": 1}])
def test_a_semantic_detector_is_checked_too(wrong: dict[str, object]) -> None:
    assert refusal({"turn_detection": {"type": "semantic_vad", **wrong}}).code == "unsupported_turn_detection"


def test_how_long_a_caller_may_say_nothing_is_a_number_or_not_said() -> None:
    read = read_turn_detection({"turn_detection": {"type": "server_vad", "idle_timeout_ms": 6_000}})
    assert isinstance(read, TurnDetection)
    assert (read.idle_timeout_ms, read.to_wire()["idle_timeout_ms"]) == (6_000, 6_000)
    quiet = read_turn_detection({"turn_detection": {"type": "server_vad", "idle_timeout_ms": None}})
    assert isinstance(quiet, TurnDetection)
    assert "idle_timeout_ms" not in quiet.to_wire()
    assert refusal({"turn_detection": {"type": "server_vad", "idle_timeout_ms": 0}}).param == "turn_detection"
