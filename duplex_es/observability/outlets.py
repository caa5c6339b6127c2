"""What a process is given to be watched by: metrics and a tracer, made from its settings; nothing by default."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from duplex_es import __version__

from .recording import UNMEASURED, Metrics
from .tracing import UNTRACED, Tracer


class OutletMissing(ValueError):
    """A setting asks for a package that is not installed; the message names the extra."""


@dataclass(frozen=True, slots=True)
class Outlets:
    """Where a process's figures and spans go."""

    metrics: Metrics = UNMEASURED
    tracer: Tracer = UNTRACED


NOWHERE = Outlets()


def open_outlets(component: str, name: str, *, measured: bool, otlp_endpoint: str) -> Outlets:
    """Outlets of ``component``, ``gateway``, ``worker`` or ``archive``, that goes by ``name``.

    An empty endpoint exports no spans.

    Raises: OutletMissing.
    """
    metrics = _metrics(component) if measured else UNMEASURED
    return Outlets(metrics, _tracer(component, name, otlp_endpoint) if otlp_endpoint else UNTRACED)


def _metrics(component: str) -> Metrics:
    try:
        from .prometheus import PrometheusMetrics
    except ModuleNotFoundError as error:
        raise OutletMissing(f"metrics need prometheus-client ({error}): install duplex-es[{component}]") from error
    return PrometheusMetrics(component)


def _tracer(component: str, name: str, endpoint: str) -> Tracer:
    try:
        from .otlp import OtlpTracer
    except ModuleNotFoundError as error:
        raise OutletMissing(f"traces need OpenTelemetry ({error}): install duplex-es[tracing]") from error
    return OtlpTracer(endpoint, _resource(component, name))


def _resource(component: str, name: str) -> Mapping[str, str]:
    return {
        "service.name": f"duplex-es-{component}",
        "service.instance.id": name,
        "service.version": __version__,
        "service.namespace": "duplex-es",
    }


def collector(setting: str, environment: Mapping[str, str]) -> str:
    """The collector that the setting names, else the one that every OpenTelemetry program would take."""
    return setting or environment.get("OTEL_EXPORTER_OTLP_ENDPOINT", "")
