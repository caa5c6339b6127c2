"""Collected events, and the figures made of them."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from typing import Any

import pytest

from duplex_es.client import EventCollector, acknowledge_collected_playback, wait_for_condition
from duplex_es.client.errors import DuplexSessionClosedError
from duplex_es.client.events import DuplexEvent, view

pytestmark = pytest.mark.unit


def created(response_id: str) -> dict[str, Any]:
    return {"type": "response.created", "response": {"id": response_id}}


def audio(response_id: str, ms: float, *, total_ms: float | None = None, rate_hz: int = 24_000) -> dict[str, Any]:
    pcm = bytes(int(ms * rate_hz / 1000) * 2)
    event = {"type": "response.output_audio.delta", "response_id": response_id, "sample_rate_hz": rate_hz}
    event |= {"delta": base64.b64encode(pcm).decode()}
    return event if total_ms is None else {**event, "metadata": {"audio_duration_ms": total_ms}}


def words(response_id: str, text: str) -> dict[str, Any]:
    return {"type": "response.output_audio_transcript.delta", "response_id": response_id, "delta": text}


def done(response_id: str) -> dict[str, Any]:
    return {"type": "response.done", "response": {"id": response_id, "status": "completed"}}


def collected(*events: tuple[float, dict[str, Any]]) -> EventCollector:
    subject = EventCollector()
    for at_s, event in events:
        subject.add(event, received_at_s=at_s)
    return subject


TALK = (
    (10.0, created("a")),
    (10.2, words("a", "Hello ")),
    (10.3, audio("a", 100, total_ms=100)),
    (10.4, audio("a", 100, total_ms=200)),
    (10.5, words("a", "there.")),
    (10.6, done("a")),
    (11.0, created("b")),
    (11.5, audio("b", 50)),
)


def test_events_are_copies_with_their_moment() -> None:
    raw = created("a")
    subject = collected((4.0, raw))
    assert "_client_received_at_s" not in raw
    assert subject.events == [{**raw, "_client_received_at_s": 4.0}]
    assert subject.event_received_at_s == [4.0]


def test_sound_and_words_are_kept_by_response() -> None:
    subject = collected(*TALK)
    assert subject.response_ids == ["a", "b"]
    assert (len(subject.audio_bytes("a")), len(subject.audio_bytes("b")), len(subject.audio_bytes())) == (
        9600,
        2400,
        12000,
    )
    assert subject.response_text("a") == "Hello there."
    assert (subject.response_is_done("a"), subject.response_is_done("b")) == (True, False)
    assert subject.count("response.output_audio.delta") == 3
    assert subject.output_sample_rate_hz == 24_000


def test_moments_are_found_from_both_ends() -> None:
    subject = collected(*TALK)
    assert subject.first_received_at("response.created") == 10.0
    assert subject.first_received_at("response.done", "response.created", after_s=10.5) == 10.6
    assert subject.first_received_at("error") is None
    assert subject.last_received_at("response.created") == 11.0
    assert subject.last_received_at("error") is None


def test_errors_are_the_error_events() -> None:
    assert [each["error"] for each in collected((1.0, {"type": "error", "error": "no"}), *TALK).errors()] == ["no"]


def test_the_response_of_an_event_is_found_in_both_places() -> None:
    assert EventCollector.response_id(created("a")) == "a"
    assert EventCollector.response_id(words("b", "")) == "b"
    assert EventCollector.response_id({}) is None


def test_one_answer_is_measured_from_the_commit() -> None:
    summary = collected(*TALK).timing_summary(after_s=9.0, input_committed_at_s=9.5, response_id="a")
    assert set(summary) == {"audio_output", "request_metrics"}
    output = summary["audio_output"]
    assert (output["response_created_to_first_audio_ms"], output["commit_to_first_audio_ms"]) == (300.0, 800.0)
    assert output["chunk_duration_ms"]["count"] == 2
    metrics = summary["request_metrics"]
    assert (metrics["ttft_ms"], metrics["ttfp_ms"]) == (700.0, 800.0)
    assert (metrics["audio_generation_ms"], metrics["audio_duration_ms"]) == (900.0, 200.0)


def test_an_answer_that_says_no_lengths_is_measured_by_its_bytes() -> None:
    summary = collected(*TALK).timing_summary(after_s=0.0, response_id="b")
    assert summary["request_metrics"]["audio_duration_ms"] == 50.0
    assert summary["request_metrics"]["ttft_ms"] is None
    assert summary["request_metrics"]["ttfp_ms"] == 500.0


def test_what_came_before_does_not_count_and_without_sound_there_is_nothing_to_say() -> None:
    assert collected(*TALK).timing_summary(after_s=20.0) == {}
    assert collected((1.0, created("a")), (2.0, done("a"))).timing_summary(after_s=0.0) == {}


def test_several_answers_are_measured_in_one_window() -> None:
    subject = collected(*TALK)
    origin = {"ttft": "here", "ttfp": "there"}
    summary = subject.global_timing_summary(
        after_s=0.0, window_started_at_s=10.0, response_ids=["a", "b"], measurement_origin=origin
    )
    assert summary == {
        "source": "client_monotonic_receive",
        "response_ids": ["a", "b"],
        "measurement_origin": origin,
        "ttft_ms": 200.0,
        "ttfp_ms": 300.0,
        "audio_generation_ms": 1_500.0,
        "audio_duration_ms": 250.0,
    }
    assert (
        subject.global_timing_summary(after_s=0.0, window_started_at_s=0.0, response_ids=["c"], measurement_origin={})
        == {}
    )


class Heard:
    """A client that heard these events and was then cut off; it notes what it is told was played."""

    def __init__(self, *events: dict[str, Any]) -> None:
        self.acknowledged: list[tuple[float, str | None, str | None]] = []
        self._events = events

    async def events(self) -> AsyncIterator[DuplexEvent]:  # type: ignore[override]
        for event in self._events:
            yield view(event)
        raise DuplexSessionClosedError("connection lost")

    async def ack_playback(
        self, played_ms: float, *, response_id: str | None = None, item_id: str | None = None
    ) -> None:
        self.acknowledged.append((played_ms, response_id, item_id))


async def test_consuming_takes_everything_and_survives_the_end() -> None:
    subject = EventCollector()
    await subject.consume(Heard(created("a"), done("a")))
    assert [event["type"] for event in subject.events] == ["response.created", "response.done"]


async def test_all_that_was_collected_is_reported_as_played_and_silence_only_while_it_lasts() -> None:
    client = Heard()
    subject = collected(*TALK, (12.0, created("c")), (12.1, created("d")), (12.2, done("d")))
    await acknowledge_collected_playback(client, subject)
    assert client.acknowledged == [(200.0, "a", "item_a"), (50.0, "b", "item_b"), (0.0, "c", "item_c")]


async def test_waiting_for_a_condition_returns_when_it_holds_or_says_what_did_not_come() -> None:
    answers = iter([False, False, True])
    await wait_for_condition(lambda: next(answers), timeout_s=5, label="the third look")
    with pytest.raises(TimeoutError, match="no answer within"):
        await wait_for_condition(lambda: False, timeout_s=0.01, label="answer")
