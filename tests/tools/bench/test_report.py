"""Sums over all callers, and the promise of the report's shape."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from duplex_es.client import EventCollector
from duplex_es.tools.bench.inside import ServiceTimes
from duplex_es.tools.bench.plan import BenchPlan
from duplex_es.tools.bench.report import SCHEMA, BenchReport, distribution, summarize
from duplex_es.tools.bench.takes import AnswerTake, Chunk, SessionTake
from duplex_es.tools.waves import Wave

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parents[3]
PLAN = BenchPlan(("ws://127.0.0.1:1/v1/realtime",), "scripted", Wave(bytes(3_200), 16_000), sessions=2)


def take(number: int = 0, **more: object) -> SessionTake:
    found = SessionTake(number, session_id=f"sess_{number}", opening_ms=10.0)
    answer = AnswerTake("resp_1", 1.0, 1.01, first_text_at_s=1.05, done_at_s=2.0, status="completed")
    answer.chunks += [Chunk(1.1, 160), Chunk(1.26, 160), Chunk(1.52, 160)]
    found.answers.append(answer)
    for name, value in more.items():
        setattr(found, name, value)
    return found


def report(*takes: SessionTake, inside: ServiceTimes | None = None) -> BenchReport:
    return summarize(PLAN, takes, started_at="2026-01-01T00:00:00+00:00", elapsed_s=2.0, inside=inside)


def test_percentiles_are_values_that_occurred_by_nearest_rank() -> None:
    found = distribution(float(value) for value in range(1, 101))
    assert found is not None
    assert (found.count, found.mean, found.p50, found.p95, found.p99, found.max) == (100, 50.5, 50, 95, 99, 100)
    assert distribution([None, 7.0]) == distribution([7.0])
    assert distribution([None]) is None


def test_answers_sessions_and_errors_are_counted() -> None:
    lost = SessionTake(1, error="session.expired", unanswered=1, refusals=["bad_audio", "bad_audio"])
    found = report(take(), lost)
    assert (found.sessions.opened, found.sessions.failed) == (1, 1)
    assert found.answers.by_status == {"completed": 1}
    assert found.answers.unanswered == 1
    assert found.errors == {"session.expired": 1, "bad_audio": 2}
    assert found.throughput.answers_per_s == 0.5


def test_times_are_milliseconds_from_the_end_of_the_question() -> None:
    found = report(take())
    assert found.request_metrics.measurement_origin == "input_committed"
    assert found.request_metrics.ttft_ms is not None and found.request_metrics.ttft_ms.p50 == 50
    assert found.request_metrics.ttfp_ms is not None and found.request_metrics.ttfp_ms.p50 == 100
    assert found.audio_output.chunk_count == 3
    assert found.audio_output.gap_ms is not None and found.audio_output.gap_ms.max == 100
    assert found.audio_output.answers_with_gaps == 1


def test_an_answer_whose_connection_was_cut_does_not_count_for_cadence() -> None:
    cut = take()
    cut.answers[0].was_cut = True
    cut.resumes_ms.append(250.0)
    found = report(cut)
    assert found.answers.cut == 1
    assert (found.audio_output.gap_ms, found.audio_output.inter_chunk_interval_ms) == (None, None)
    assert found.resume_ms is not None and found.resume_ms.p50 == 250


def test_what_the_log_says_is_there_only_if_it_was_read() -> None:
    assert report(take()).service is None
    found = report(take(), inside=ServiceTimes(up_ms=[2.0], down_ms=[1.0, 3.0])).service
    assert found is not None and found.up_ms is not None and found.down_ms is not None
    assert (found.up_ms.p50, found.down_ms.max) == (2, 3)


def test_numbers_that_an_engine_attaches_are_kept_by_their_names() -> None:
    engine = take()
    told = {"vllm_ttft_ms": 12.0, "vllm_itls_ms": [1.0, 3.0], "final_output_type": "text", "done": True}
    engine.answers[0].stages = {"1": {"audio_duration_s": 2.5}, "0": told, "2": {"model": "m"}, "3": "odd"}
    found = report(engine)
    assert list(found.stage_metrics) == ["0", "1"]
    assert found.stage0_tokens == found.stage_metrics["0"]
    assert list(found.stage0_tokens) == ["vllm_ttft_ms", "vllm_itls_ms"]
    intervals = found.stage0_tokens["vllm_itls_ms"]
    assert (intervals.count, intervals.mean, intervals.max) == (2, 2.0, 3.0)


def test_keys_that_the_collector_has_too_are_spelled_alike() -> None:
    """A result compares with other benchmarks of this API only under the same names."""
    collector = EventCollector()
    delta = {"type": "response.output_audio.delta", "response_id": "r", "delta": "AAAAAA==", "sample_rate_hz": 24_000}
    collector.add({"type": "response.created", "response": {"id": "r"}}, received_at_s=1.0)
    for at_s in (1.1, 1.2):
        collector.add(delta, received_at_s=at_s)
    summary = collector.timing_summary(after_s=0.0, input_committed_at_s=0.9)
    ours = json.loads(msgspec.json.encode(report(take())))
    alike = {"commit_to_first_audio_ms"}  # here it is ttfp_ms, whose origin the report names
    assert set(summary["audio_output"]) - alike <= set(ours["audio_output"])
    assert {"source", "ttfp_ms", "audio_generation_ms", "audio_duration_ms"} <= set(ours["request_metrics"])


def test_the_schema_in_the_reference_is_the_one_of_the_code() -> None:
    written = json.loads((ROOT / "docs/reference/bench-report.schema.json").read_text())
    assert written == msgspec.json.schema(BenchReport), "stale: run make docs"


def test_the_example_has_the_reports_shape() -> None:
    example = msgspec.json.decode((ROOT / "examples/bench/scripted_50.json").read_bytes(), type=BenchReport)
    assert example.schema == SCHEMA
    assert example.sessions.opened == example.load.sessions == 50
    assert example.load.duration_s == 60
    assert example.answers.unanswered == 0
