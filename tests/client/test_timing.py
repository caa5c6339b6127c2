"""What events say about time, one pass over them."""

from __future__ import annotations

from typing import Any

import pytest

from duplex_es.client.timing import Observed, found_in

pytestmark = pytest.mark.unit


def audio(ms: float | None = None) -> dict[str, Any]:
    metadata = {} if ms is None else {"metadata": {"audio_duration_ms": ms}}
    return {"type": "response.output_audio.delta", "delta": "AAAA", **metadata}


def words(text: str) -> dict[str, Any]:
    return {"type": "response.output_audio_transcript.delta", "delta": text}


def seen(*events: tuple[float, dict[str, Any]]) -> Observed:
    return Observed.of(events)


def test_the_first_word_is_the_first_that_says_something() -> None:
    subject = seen((1.0, words("")), (2.0, words("hi")), (3.0, words("there")))
    assert subject.first_text_at_s == 2.0


def test_an_empty_delta_is_no_sound() -> None:
    assert seen((1.0, {"type": "response.output_audio.delta", "delta": ""})).audio_at_s == []


def test_chunk_lengths_are_the_steps_of_the_running_total_which_starts_over_with_each_response() -> None:
    subject = seen((0, audio(100)), (1, audio(250)), (2, audio(80)), (3, audio()))
    section = subject.audio_output(None)
    assert section["chunk_count"] == 4
    assert section["chunk_duration_ms"] == {"count": 3, "mean": 110.0, "p50": 100.0, "p95": 150.0, "max": 150.0}
    assert section["inter_chunk_interval_ms"]["mean"] == 1_000
    assert section["max_chunk_gap_ms"] == 1_000


def test_without_a_moment_of_asking_there_are_no_request_metrics() -> None:
    assert seen((1.0, audio())).request_metrics(None, 0.0, None) is None


def test_the_commit_goes_before_the_created_response_as_the_origin() -> None:
    subject = seen((1.0, {"type": "response.created"}), (1.5, words("hi")), (2.0, audio(100)), (2.25, audio(200)))
    from_created = subject.request_metrics(None, 0.0, None)
    from_commit = subject.request_metrics(0.5, 0.0, {"ttfp": "my own words"})
    assert from_created is not None
    assert from_commit is not None
    assert (from_created["ttft_ms"], from_created["ttfp_ms"], from_created["audio_generation_ms"]) == (
        500,
        1_000,
        1_250,
    )
    assert (from_commit["ttft_ms"], from_commit["ttfp_ms"]) == (1_000, 1_500)
    assert from_created["audio_duration_ms"] == 200
    assert "response.created" in from_created["measurement_origin"]["ttft"]
    assert "commit" in from_commit["measurement_origin"]["ttft"]
    assert from_commit["measurement_origin"]["ttfp"] == "my own words"


def test_what_the_server_measured_goes_before_what_was_seen_from_here() -> None:
    told = {"ttft_ms": 12.0, "measurement_origin": {"ttft": "request accepted"}}
    done = {"type": "response.done", "response": {"metadata": {"vllm_omni": {"response_request_metrics": told}}}}
    metrics = seen((1.0, {"type": "response.created"}), (2.0, audio(100)), (3.0, done)).request_metrics(None, 0, None)
    assert metrics is not None
    assert metrics["source"] == "server_request_start_and_client_receive"
    assert (metrics["ttft_ms"], metrics["ttfp_ms"]) == (12.0, 1_000)
    assert metrics["measurement_origin"]["ttft"] == "request accepted"


def test_engine_metrics_are_found_wherever_an_event_may_carry_them() -> None:
    stages = {"0": {"vllm_ttft_ms": 1}}
    for event in (
        {"vllm_omni": {"stage_metrics": stages}},
        {"metadata": {"stage_metrics": stages}},
        {"metadata": {"duplex_event": {"stage_metrics": stages}}},
        {"response": {"metadata": {"vllm_omni": {"stage_metrics": stages}}}},
    ):
        assert found_in(event, "stage_metrics") == stages
    assert found_in({"metadata": None}, "stage_metrics") == {}


def test_tokens_of_the_first_stage_are_summed_up() -> None:
    stage = {"num_tokens_out": 3, "vllm_ttft_ms": 40.0, "vllm_tpot_ms": 11.0, "vllm_itls_ms": [10.0, 12.0, None]}
    event = {"type": "response.done", "metadata": {"stage_metrics": {"0": stage, "1": {"x": 1}}}}
    sections = seen((1.0, event)).engine()
    assert sections["stage_metrics"] == {"0": stage, "1": {"x": 1}}
    assert sections["stage0_tokens"] == {
        "source": "engine_stage_metrics",
        "output_token_count": 3,
        "ttft_ms": 40.0,
        "tpot_ms": 11.0,
        "itls_ms": [10.0, 12.0],
        "inter_token_interval_ms": {"count": 2, "mean": 11.0, "p50": 10.0, "p95": 12.0, "max": 12.0},
    }
    assert seen((1.0, audio())).engine() == {}
