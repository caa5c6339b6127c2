"""The report as a person reads it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from duplex_es.tools.bench.report import BenchReport, Distribution
from duplex_es.tools.bench.table import facts, rows, troubles

pytestmark = pytest.mark.unit

EXAMPLE = Path(__file__).resolve().parents[3] / "examples/bench/scripted_50.json"


@pytest.fixture
def report() -> BenchReport:
    return msgspec.json.decode(EXAMPLE.read_bytes(), type=BenchReport)


def test_every_row_has_as_many_cells_as_the_head(report: BenchReport) -> None:
    head, *measured = rows(report)
    assert head == ["milliseconds", "count", "mean", "p50", "p95", "p99", "max"]
    assert {len(row) for row in measured} == {len(head)}
    assert "question's end -> first sound" in [row[0] for row in measured]


def test_what_was_not_measured_has_no_row(report: BenchReport) -> None:
    without = msgspec.structs.replace(report, resume_ms=None, service=None)
    names = [row[0] for row in rows(without)]
    assert not {"cut -> resumed", "   up: commit -> its record"} & set(names)


def test_what_the_stages_told_has_rows_of_its_own_in_the_order_of_the_stages(report: BenchReport) -> None:
    one = Distribution(count=1, mean=2.0, p50=2.0, p95=2.0, p99=2.0, max=2.0)
    stages = {"0": {"vllm_ttft_ms": one, "num_tokens_out": one}, "1": {"audio_duration_s": one}}
    shown = rows(msgspec.structs.replace(report, stage_metrics=stages))
    assert [row[0] for row in shown[-3:]] == [
        "stage 0: num_tokens_out",
        "stage 0: vllm_ttft_ms",
        "stage 1: audio_duration_s",
    ]


def test_errors_are_named_with_their_number(report: BenchReport) -> None:
    assert dict(facts(msgspec.structs.replace(report, errors={})))["errors"] == "none"
    assert dict(facts(msgspec.structs.replace(report, errors={"bad_audio": 2})))["errors"] == "2 bad_audio"


def without_a_session(report: BenchReport, **errors: int) -> BenchReport:
    none = msgspec.structs.replace(report.sessions, opened=0, failed=sum(errors.values()), opening_ms=None)
    return msgspec.structs.replace(report, sessions=none, errors=errors)


def test_where_no_session_was_opened_each_error_says_what_to_look_at_the_most_frequent_first(
    report: BenchReport,
) -> None:
    found = troubles(without_a_session(report, connection_failed=1, runtime_open_failed=2, resource_exhausted=5))
    assert [name for name, _ in found] == ["5 resource_exhausted", "2 runtime_open_failed", "1 connection_failed"]
    assert "--sessions" in found[0][1] and "workers" in found[1][1]
    assert all(url in found[2][1] for url in report.load.urls)
    assert "--model" in troubles(without_a_session(report, unsupported=1))[0][1]
    assert "does not know" in troubles(without_a_session(report, of_a_newer_server=1))[0][1]


def test_where_one_session_was_opened_there_are_times_to_show(report: BenchReport) -> None:
    assert troubles(msgspec.structs.replace(report, errors={"connection_failed": 9})) == []
