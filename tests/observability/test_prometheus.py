"""What is recorded is what is scraped."""

from __future__ import annotations

import pytest

from duplex_es.observability import catalogue
from duplex_es.observability.prometheus import PrometheusMetrics, documented, families_of

pytestmark = pytest.mark.unit


def lines(metrics: PrometheusMetrics) -> list[str]:
    """The exposition without its comments."""
    return [line for line in metrics.exposition().decode().splitlines() if not line.startswith("#")]


def test_counters_gauges_and_histograms_are_shown() -> None:
    metrics = PrometheusMetrics("gateway")
    metrics.count(catalogue.RESUMES, "resumed")
    metrics.count(catalogue.RESUMES, "resumed", by=2)
    metrics.set(catalogue.ATTACHED, 7, "echo")
    metrics.observe(catalogue.RESUME, 0.02)
    shown = lines(metrics)
    assert 'duplex_gateway_resumes_total{outcome="resumed"} 3.0' in shown
    assert 'duplex_gateway_sessions{model="echo"} 7.0' in shown
    assert 'duplex_gateway_resume_seconds_bucket{le="0.05"} 1.0' in shown
    assert 'duplex_gateway_resume_seconds_bucket{le="0.01"} 0.0' in shown


def test_a_clock_that_was_set_back_gives_no_negative_time() -> None:
    metrics = PrometheusMetrics("gateway")
    metrics.observe(catalogue.SEND_DELAY, -5)
    assert "duplex_gateway_delivery_seconds_sum 0.0" in lines(metrics)


def test_what_is_looked_up_is_looked_up_at_each_scrape() -> None:
    metrics, seen = PrometheusMetrics("gateway"), [1.0, 2.0]
    metrics.at_scrape(lambda: metrics.set(catalogue.CONNECTIONS, seen.pop(0)))
    assert "duplex_gateway_connections 1.0" in lines(metrics)
    assert "duplex_gateway_connections 2.0" in lines(metrics)


def test_a_program_shows_its_own_families_and_its_process() -> None:
    gateway, worker, archive = (set(families_of(name)) for name in ("gateway", "worker", "archive"))
    assert catalogue.FLEET_SLOTS in gateway - worker
    assert catalogue.TICK in worker - gateway
    assert catalogue.ARCHIVE_BEHIND in archive - gateway - worker
    assert catalogue.LOG_APPEND in gateway & worker & archive
    assert gateway | worker | archive == set(catalogue.FAMILIES)
    shown = "\n".join(lines(PrometheusMetrics("worker")))
    assert "process_resident_memory_bytes" in shown and 'duplex_build_info{component="worker"' in shown
    assert "_created" not in shown


def test_a_family_of_the_other_program_is_a_defect() -> None:
    with pytest.raises(KeyError):
        PrometheusMetrics("worker").count(catalogue.SENT)


def test_the_reference_names_every_family() -> None:
    table = documented()
    assert all(f"`{family.name}`" in table for family in catalogue.FAMILIES)
    assert "| `duplex_log_append_seconds` | histogram | `stream` |" in table
