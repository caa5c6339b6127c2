"""What the log tells its observer is what is scraped."""

from __future__ import annotations

import pytest

from duplex_es.log.errors import Fenced, LogUnavailable
from duplex_es.log.lanes import Moved
from duplex_es.observability.log_figures import LogFigures
from duplex_es.observability.prometheus import PrometheusMetrics

pytestmark = pytest.mark.unit


def test_everything_the_log_goes_through_has_its_figure() -> None:
    metrics = PrometheusMetrics("worker")
    figures = LogFigures(metrics)
    figures.appended("output", 0.003, 2, 500)
    figures.piped()
    figures.called("claim", 0.001)
    figures.persisted(0.02)
    for error in (Fenced("newer"), LogUnavailable("away"), Moved()):
        figures.failed(error)
    figures.healed(7)
    figures.reconnected("append")
    figures.delivered("input", 0.0002)
    figures.fell_behind("input")
    text = metrics.exposition().decode()
    for line in (
        'duplex_log_append_seconds_count{stream="output"} 1.0',
        'duplex_log_records_total{stream="output"} 2.0',
        'duplex_log_bytes_total{stream="output"} 500.0',
        "duplex_log_pipelines_total 1.0",
        'duplex_log_call_seconds_count{op="claim"} 1.0',
        "duplex_log_persist_seconds_count 1.0",
        'duplex_log_errors_total{kind="Fenced"} 1.0',
        'duplex_log_errors_total{kind="LogUnavailable"} 2.0',
        "duplex_log_healed_records_total 7.0",
        'duplex_log_reconnects_total{purpose="append"} 1.0',
        'duplex_log_delivery_seconds_count{stream="input"} 1.0',
        'duplex_log_behind_total{stream="input"} 1.0',
    ):
        assert line in text, line
