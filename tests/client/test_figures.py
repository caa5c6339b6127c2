"""Summaries of numbers."""

from __future__ import annotations

import math

import pytest

from duplex_es.client.figures import (
    distribution_summary,
    finite,
    interval_summary,
    metric_mean,
    nearest_rank,
    summarize_session_request_metrics,
)

pytestmark = pytest.mark.unit


def test_a_percentile_is_one_of_the_values() -> None:
    values = [float(n) for n in range(1, 101)]
    assert [nearest_rank(values, share) for share in (0.5, 0.95, 0.99, 1.0)] == [50, 95, 99, 100]
    assert nearest_rank([7.0], 0.5) == 7.0


def test_intervals_are_summed_up_without_the_impossible_ones() -> None:
    assert interval_summary([20.00049, 10.0, -1.0, math.nan]) == {
        "count": 2,
        "mean": 15.0,
        "p50": 10.0,
        "p95": 20.0,
        "max": 20.0,
    }
    assert interval_summary([]) == {"count": 0, "mean": 0.0, "p50": 0.0, "p95": 0.0, "max": 0.0}


def test_a_distribution_without_values_is_nothing() -> None:
    assert distribution_summary([math.inf]) is None
    assert distribution_summary([3.0, 1.0, 2.0]) == {"count": 3, "mean": 2.0, "p50": 2.0, "p99": 3.0}
    assert distribution_summary([1 / 3], digits=1) == {"count": 1, "mean": 0.3, "p50": 0.3, "p99": 0.3}


@pytest.mark.parametrize(
    ("value", "expected"), [(3, 3.0), ({"mean": 2.5}, 2.5), ({"p50": 1}, None), (True, None), ("3", None), (None, None)]
)
def test_a_mean_is_read_from_a_number_or_a_summary(value: object, expected: float | None) -> None:
    assert metric_mean(value) == expected


def test_a_truth_value_is_no_number() -> None:
    assert finite(True) is None
    assert finite(1) == 1.0


def test_answers_of_a_session_are_summed_up_without_what_they_lack() -> None:
    answers = [{"ttft_ms": 10.0, "ttfp_ms": 30.0, "tpot_ms": 0.0, "rtf": 0.1234567}, {"ttfp_ms": 50.0, "ttft_ms": None}]
    assert summarize_session_request_metrics(answers, session_id="s") == {
        "session_id": "s",
        "audio_turn_count": 2,
        "ttft_ms": {"count": 1, "mean": 10.0, "p50": 10.0, "p99": 10.0},
        "ttfp_ms": {"count": 2, "mean": 40.0, "p50": 30.0, "p99": 50.0},
        "rtf": {"count": 1, "mean": 0.123457, "p50": 0.123457, "p99": 0.123457},
    }
    with_tokens = summarize_session_request_metrics([{"tpot_ms": 4.0}], session_id=None)
    assert with_tokens["tpot_ms"]["mean"] == 4.0
