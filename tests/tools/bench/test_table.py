"""The report as a person reads it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from duplex_es.tools.bench.report import BenchReport
from duplex_es.tools.bench.table import facts, rows

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


def test_errors_are_named_with_their_number(report: BenchReport) -> None:
    assert dict(facts(msgspec.structs.replace(report, errors={})))["errors"] == "none"
    assert dict(facts(msgspec.structs.replace(report, errors={"bad_audio": 2})))["errors"] == "2 bad_audio"
