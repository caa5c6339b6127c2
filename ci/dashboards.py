"""Writes the Grafana dashboards of helm/duplex-es/dashboards from the tables below; ``--check`` only compares.

Every panel is a title, a unit and queries. A dashboard may ask for what ``duplex_es.observability.catalogue`` names;
tests ask a real Prometheus every one of these queries.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).resolve().parents[1] / "helm" / "duplex-es" / "dashboards"
WIDTH, HEIGHT, COLUMNS = 8, 7, 3
SCOPE = 'instance=~"$instance"'


class Panel(NamedTuple):
    """One graph, or one number (``stat``). ``queries`` are (PromQL, legend)."""

    title: str
    unit: str
    queries: Sequence[tuple[str, str]]
    stat: bool = False


def rate(metric: str, by: str = "", where: str = "") -> str:
    """The rate of a counter, summed ``by`` labels."""
    labels = ", ".join(part for part in (SCOPE, where) if part)
    return f"sum{f' by ({by})' if by else ''} (rate({metric}{{{labels}}}[$__rate_interval]))"


def now(metric: str, by: str = "", where: str = "", how: str = "sum") -> str:
    """A gauge, summed ``by`` labels."""
    labels = ", ".join(part for part in (SCOPE, where) if part)
    return f"{how}{f' by ({by})' if by else ''} ({metric}{{{labels}}})"


def share(metric: str, of: str, by: str = "") -> str:
    """How much of one counter there is for each of another."""
    return f"{rate(metric, by)} / {rate(of, by)}"


def p99(metric: str, by: str) -> str:
    """The 99th percentile of a histogram ``by`` a label."""
    return f"histogram_quantile(0.99, sum by (le, {by}) (rate({metric}_bucket{{{SCOPE}}}[$__rate_interval])))"


def quantiles(metric: str, by: str = "") -> list[tuple[str, str]]:
    """Median, 95th and 99th percentile of a histogram."""
    groups = f"le, {by}" if by else "le"
    legend = f" {{{{{by}}}}}" if by else ""
    inner = f"sum by ({groups}) (rate({metric}_bucket{{{SCOPE}}}[$__rate_interval]))"
    return [(f"histogram_quantile({q}, {inner})", f"p{round(q * 100)}{legend}") for q in (0.5, 0.95, 0.99)]


OVERVIEW = (
    Panel("Callers", "short", [(now("duplex_gateway_connections"), "sockets")], stat=True),
    Panel("Free slots", "short", [('min by (model) (duplex_fleet_slots{state="free"})', "{{model}}")], stat=True),
    Panel(
        "Sessions without a worker",
        "short",
        [("max by (model) (duplex_fleet_waiting_sessions)", "{{model}}")],
        stat=True,
    ),
    Panel(
        "Ready",
        "short",
        [
            (now("duplex_ready", "component"), "{{component}}"),
            (now("duplex_draining", "component"), "{{component}} draining"),
        ],
    ),
    Panel("Sessions by model", "short", [(now("duplex_gateway_sessions", "model"), "{{model}}")]),
    Panel(
        "Openings and resumes",
        "cps",
        [
            (rate("duplex_gateway_openings_total", "outcome"), "open: {{outcome}}"),
            (rate("duplex_gateway_resumes_total", "outcome"), "resume: {{outcome}}"),
        ],
    ),
    Panel("Time to first sound", "s", quantiles("duplex_worker_first_audio_seconds", "model")),
    Panel("Interruption to silence", "s", quantiles("duplex_worker_barge_in_seconds")),
    Panel("Errors told to clients", "cps", [(rate("duplex_gateway_errors_total", "code"), "{{code}}")]),
    Panel("Append to the log", "s", quantiles("duplex_log_append_seconds")),
    Panel(
        "Event loop lag",
        "s",
        [
            (
                p99("duplex_loop_lag_seconds", "instance"),
                "{{instance}}",
            )
        ],
    ),
    Panel("Versions", "short", [(now("duplex_build_info", "component, version"), "{{component}} {{version}}")]),
)
SESSIONS = (
    Panel("Opening a session", "s", quantiles("duplex_gateway_opening_seconds", "model")),
    Panel("Wait at the gate", "s", quantiles("duplex_gateway_admission_wait_seconds", "kind")),
    Panel("At the gate now", "short", [(now("duplex_gateway_admission_waiting"), "waiting")]),
    Panel("Resume until caught up", "s", quantiles("duplex_gateway_resume_seconds")),
    Panel("Frames replayed", "cps", [(rate("duplex_gateway_replayed_frames_total"), "frames")]),
    Panel("Sockets that ended", "cps", [(rate("duplex_gateway_closes_total", "code, cause"), "{{code}} {{cause}}")]),
    Panel("Decision to socket", "s", quantiles("duplex_gateway_delivery_seconds")),
    Panel("Gateway to decision", "s", quantiles("duplex_worker_input_delay_seconds")),
    Panel("Between two pieces of sound", "s", quantiles("duplex_worker_chunk_interval_seconds", "model")),
    Panel("Pieces that came too late to play", "cps", [(rate("duplex_worker_underruns_total", "model"), "{{model}}")]),
    Panel(
        "Answers by end",
        "cps",
        [
            (rate("duplex_worker_answers_total", "status"), "{{status}}"),
            (rate("duplex_worker_answers_continued_total"), "continued elsewhere"),
        ],
    ),
    Panel("Functions called", "cps", [(rate("duplex_worker_tool_calls_total", "model"), "{{model}}")]),
    Panel(
        "Events",
        "cps",
        [
            (rate("duplex_gateway_events_received_total"), "received"),
            (rate("duplex_gateway_events_sent_total"), "sent"),
        ],
    ),
    Panel(
        "Bytes",
        "Bps",
        [(rate("duplex_gateway_received_bytes_total"), "received"), (rate("duplex_gateway_sent_bytes_total"), "sent")],
    ),
    Panel("Clients that take nothing", "short", [(now("duplex_gateway_blocked_clients", "instance"), "{{instance}}")]),
    Panel("Held in gateways", "bytes", [(now("duplex_gateway_buffered_bytes", "direction"), "{{direction}}")]),
    Panel("Lost to a newer socket", "cps", [(rate("duplex_gateway_fenced_total"), "sockets")]),
    Panel(
        "Drained",
        "cps",
        [
            (rate("duplex_gateway_departures_total", "how"), "{{how}}"),
            (rate("duplex_gateway_accepted_total"), "accepted"),
        ],
    ),
)
WORKERS = (
    Panel(
        "Slots",
        "short",
        [
            (now("duplex_worker_slots", "model, state"), "{{model}} {{state}}"),
            ("max by (model) (duplex_fleet_workers)", "{{model}} workers"),
        ],
    ),
    Panel("Sessions", "short", [(now("duplex_worker_sessions", "model, state"), "{{model}} {{state}}")]),
    Panel("Model runs", "short", [(now("duplex_worker_model_up", "model", how="min"), "{{model}}")]),
    Panel(
        "Loading the model took",
        "s",
        [(now("duplex_worker_model_load_seconds", "model", how="max"), "{{model}}")],
        stat=True,
    ),
    Panel("Tick: work", "s", quantiles("duplex_worker_tick_seconds", "model")),
    Panel("Tick: from due to done", "s", quantiles("duplex_worker_tick_delay_seconds", "model")),
    Panel(
        "Late ticks",
        "percentunit",
        [
            (
                share("duplex_worker_late_ticks_total", "duplex_worker_tick_seconds_count", "model"),
                "{{model}}",
            )
        ],
    ),
    Panel("Sessions in a tick", "short", [(now("duplex_worker_tick_sessions", "instance"), "{{instance}}")]),
    Panel(
        "Engines started again",
        "short",
        [(f"sum by (model) (increase(duplex_worker_engine_restarts_total{{{SCOPE}}}[$__rate_interval]))", "{{model}}")],
    ),
    Panel(
        "Callers' sound never heard",
        "s",
        [(rate("duplex_worker_dropped_audio_seconds_total", "model"), "{{model}} per second")],
    ),
    Panel(
        "Sound in and out",
        "short",
        [(rate("duplex_worker_audio_seconds_total", "model, direction"), "{{model}} {{direction}}")],
    ),
    Panel("Opening the model", "s", quantiles("duplex_worker_model_open_seconds", "model")),
    Panel("One turn of a session", "s", quantiles("duplex_worker_turn_seconds", "model")),
    Panel("Claims", "cps", [(rate("duplex_worker_claims_total", "kind"), "{{kind}}")]),
    Panel("Taking over", "s", quantiles("duplex_worker_takeover_seconds", "model")),
    Panel("Sessions that left", "cps", [(rate("duplex_worker_sessions_ended_total", "how"), "{{how}}")]),
    Panel(
        "CPU",
        "percentunit",
        [(f"sum by (instance) (rate(process_cpu_seconds_total{{{SCOPE}}}[$__rate_interval]))", "{{instance}}")],
    ),
    Panel("Memory", "bytes", [(now("process_resident_memory_bytes", "instance"), "{{instance}}")]),
)
LOG = (
    Panel("The store answers", "short", [(now("duplex_log_up", "instance", how="min"), "{{instance}}")]),
    Panel("Append", "s", quantiles("duplex_log_append_seconds", "stream")),
    Panel("Records", "cps", [(rate("duplex_log_records_total", "stream"), "{{stream}}")]),
    Panel("Bytes", "Bps", [(rate("duplex_log_bytes_total", "stream"), "{{stream}}")]),
    Panel(
        "Records per pipeline",
        "short",
        [(share("duplex_log_records_total", "duplex_log_pipelines_total"), "records")],
    ),
    Panel("Notification to reader", "s", quantiles("duplex_log_delivery_seconds", "stream")),
    Panel(
        "Rare operations: p99",
        "s",
        [
            (
                p99("duplex_log_call_seconds", "op"),
                "{{op}}",
            )
        ],
    ),
    Panel("Rare operations", "cps", [(rate("duplex_log_call_seconds_count", "op"), "{{op}}")]),
    Panel("Readers that fell behind", "cps", [(rate("duplex_log_behind_total", "stream"), "{{stream}}")]),
    Panel("Until writes would survive", "s", quantiles("duplex_log_persist_seconds")),
    Panel(
        "Records healed",
        "short",
        [
            (
                f"sum by (instance) (increase(duplex_log_healed_records_total{{{SCOPE}}}[$__rate_interval]))",
                "{{instance}}",
            )
        ],
    ),
    Panel("Connections made anew", "cps", [(rate("duplex_log_reconnects_total", "purpose"), "{{purpose}}")]),
    Panel("Errors", "cps", [(rate("duplex_log_errors_total", "kind"), "{{kind}}")]),
)
ARCHIVE = (
    Panel(
        "Since the last pass without a failure",
        "s",
        [(f"time() - {now('duplex_archive_last_success_timestamp_seconds', 'instance', how='max')}", "{{instance}}")],
    ),
    Panel("Behind", "s", [(now("duplex_archive_behind_seconds", "instance", how="max"), "{{instance}}")]),
    Panel("Records behind", "short", [(now("duplex_archive_behind_records", "instance", how="max"), "{{instance}}")]),
    Panel("Sessions in the store", "short", [(now("duplex_archive_sessions", "state", how="max"), "{{state}}")]),
    Panel("Sessions archived", "cps", [(rate("duplex_archive_archived_total"), "whole")]),
    Panel("Failures", "cps", [(rate("duplex_archive_failures_total", "kind"), "{{kind}}")]),
    Panel("Segments", "cps", [(rate("duplex_archive_segments_total", "stream"), "{{stream}}")]),
    Panel("Bytes, sealed", "Bps", [(rate("duplex_archive_bytes_total", "stream"), "{{stream}}")]),
)
DASHBOARDS = {
    "overview": ("Overview", OVERVIEW),
    "sessions": ("Sessions and latency", SESSIONS),
    "workers": ("Workers and models", WORKERS),
    "log": ("Session log", LOG),
    "archive": ("Archive", ARCHIVE),
}


def dashboard(name: str) -> dict[str, Any]:
    """One dashboard, as Grafana imports it."""
    title, panels = DASHBOARDS[name]
    return {
        "uid": f"duplex-es-{name}",
        "title": f"duplex_es: {title}",
        "tags": ["duplex_es"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "links": [{"type": "dashboards", "title": "duplex_es", "tags": ["duplex_es"], "asDropdown": True}],
        "templating": {"list": [_source(), _instances()]},
        "panels": [_panel(number, panel) for number, panel in enumerate(panels)],
    }


def _source() -> dict[str, Any]:
    return {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}


def _instances() -> dict[str, Any]:
    return {
        "name": "instance",
        "label": "Instance",
        "type": "query",
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "query": {"query": "label_values(duplex_build_info, instance)", "refId": "instances"},
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    source = {"type": "prometheus", "uid": "${datasource}"}
    drawn: dict[str, Any] = {} if panel.stat else {"custom": {"fillOpacity": 10, "showPoints": "never"}}
    return {
        "id": number + 1,
        "title": panel.title,
        "type": "stat" if panel.stat else "timeseries",
        "datasource": source,
        "gridPos": {"x": number % COLUMNS * WIDTH, "y": number // COLUMNS * HEIGHT, "w": WIDTH, "h": HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0, **drawn}, "overrides": []},
        "options": {} if panel.stat else {"tooltip": {"mode": "multi", "sort": "desc"}},
        "targets": [
            {"refId": chr(ord("A") + index), "datasource": source, "expr": query, "legendFormat": legend}
            for index, (query, legend) in enumerate(panel.queries)
        ],
    }


def text(name: str) -> str:
    """The file of one dashboard."""
    return json.dumps(dashboard(name), indent=2) + "\n"


def main() -> int:
    """Write the files, or with ``--check`` say which are stale; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    FOLDER.mkdir(parents=True, exist_ok=True)
    stale = [name for name in DASHBOARDS if not _is_written(name)]
    if check:
        for name in stale:
            print(f"{FOLDER / name}.json is stale: run ci/dashboards.py", file=sys.stderr)
        return 1 if stale else 0
    for name in stale:
        (FOLDER / f"{name}.json").write_text(text(name))
    return 0


def _is_written(name: str) -> bool:
    path = FOLDER / f"{name}.json"
    return path.exists() and path.read_text() == text(name)


if __name__ == "__main__":
    sys.exit(main())
