"""Nothing is measured or exported unless somebody asks; what is asked for and not installed is named."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from duplex_es.observability.outlets import OutletMissing, collector, open_outlets
from duplex_es.observability.recording import UNMEASURED
from duplex_es.observability.tracing import UNTRACED

pytestmark = pytest.mark.unit


def test_by_default_there_is_nothing() -> None:
    outlets = open_outlets("gateway", "g1", measured=False, otlp_endpoint="")
    assert outlets.metrics is UNMEASURED and outlets.tracer is UNTRACED


def test_what_is_asked_for_is_there() -> None:
    outlets = open_outlets("worker", "w1", measured=True, otlp_endpoint="http://127.0.0.1:9")
    assert b"duplex_build_info" in outlets.metrics.exposition()
    assert outlets.tracer.start("x").context.sampled


@pytest.mark.parametrize(
    ("package", "module", "options", "extra"),
    [
        ("prometheus_client", "prometheus", {"measured": True, "otlp_endpoint": ""}, r"duplex-es\[worker\]"),
        ("opentelemetry", "otlp", {"measured": False, "otlp_endpoint": "http://c"}, r"duplex-es\[tracing\]"),
    ],
)
def test_a_missing_package_names_its_extra(
    monkeypatch: pytest.MonkeyPatch, package: str, module: str, options: dict[str, Any], extra: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, f"duplex_es.observability.{module}", raising=False)
    with pytest.raises(OutletMissing, match=extra):
        open_outlets("worker", "w1", **options)


def test_the_usual_variable_names_the_collector_too() -> None:
    environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://theirs:4318"}
    assert collector("", environment) == "http://theirs:4318"
    assert collector("http://ours:4318", environment) == "http://ours:4318"
    assert collector("", {}) == ""
