"""The figures of a whole worker, and those of an engine it owns."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from duplex_es.log.memory import MemoryLog
from duplex_es.observability.prometheus import PrometheusMetrics
from tests.support.toy_model import TOY_INFO
from workers.host import LOG, Host
from workers.reporting import Reporter

pytestmark = pytest.mark.unit


def reporting(engine: Any = None) -> tuple[Host, PrometheusMetrics, Reporter]:
    """A host that does not run, over a model with this engine."""
    model: Any = SimpleNamespace(info=TOY_INFO, **({} if engine is None else {"engine": engine}))
    host, metrics = Host(MemoryLog(), model, worker="w", slots=3), PrometheusMetrics("worker")
    return host, metrics, Reporter(host, model, metrics)


def test_a_worker_shows_its_slots_and_whether_it_is_ready() -> None:
    host, metrics, reporter = reporting()
    reporter.loaded(1.5)
    text = metrics.exposition().decode()
    for line in (
        'duplex_worker_slots{model="toy",state="free"} 3.0',
        'duplex_ready{component="worker"} 0.0',
        'duplex_worker_model_up{model="toy"} 1.0',
        'duplex_worker_model_load_seconds{model="toy"} 1.5',
        'duplex_worker_claims_total{kind="lost",model="toy"} 0.0',
        "duplex_log_up 0.0",
    ):
        assert line in text, line
    host.readiness.passes(LOG)
    assert b'duplex_ready{component="worker"} 1.0' in metrics.exposition()
    host.stop()
    text = metrics.exposition().decode()
    assert 'duplex_draining{component="worker"} 1.0' in text
    assert 'duplex_worker_slots{model="toy",state="free"} 0.0' in text


def test_an_engine_shows_its_ticks_and_its_restarts() -> None:
    engine = SimpleNamespace(starts=1, is_alive=True, heard_tick=None)
    host, metrics, _ = reporting(engine)
    heard_tick: Any = engine.heard_tick
    heard_tick(SimpleNamespace(work_ms=12.0, after_ms=30.0, sessions=2), False)
    heard_tick(SimpleNamespace(work_ms=50.0, after_ms=90.0, sessions=2), True)
    engine.starts = 3
    text = metrics.exposition().decode()
    for line in (
        'duplex_worker_tick_seconds_count{model="toy"} 2.0',
        'duplex_worker_tick_delay_seconds_bucket{le="0.04",model="toy"} 1.0',
        'duplex_worker_late_ticks_total{model="toy"} 1.0',
        'duplex_worker_tick_sessions{model="toy"} 2.0',
        'duplex_worker_engine_restarts_total{model="toy"} 2.0',
    ):
        assert line in text, line
    assert b'duplex_worker_engine_restarts_total{model="toy"} 2.0' in metrics.exposition()
    engine.is_alive, host.log_answers = False, True
    assert b'duplex_worker_model_up{model="toy"} 0.0' in metrics.exposition()
    assert not host.look_at_model()
    assert "engine is gone" in host.reason
    engine.is_alive = True
    assert host.look_at_model()
