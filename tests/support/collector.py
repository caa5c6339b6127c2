"""An OpenTelemetry collector for tests: takes spans over OTLP/HTTP and keeps them."""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True)
class SeenSpan:
    """One span as it was exported. Ids are hex."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    service: str
    instance: str
    attributes: dict[str, Any]
    events: list[str]
    began_s: float
    is_error: bool


class Collector:
    """Listens on loopback inside its ``with`` block; ``spans`` are all that came, ``bodies`` as they came."""

    def __init__(self) -> None:
        self.spans: list[SeenSpan] = []
        self.bodies: list[bytes] = []
        collector = self

        class Receive(BaseHTTPRequestHandler):
            """One export."""

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                collector.bodies.append(body)
                collector.spans += _spans(ExportTraceServiceRequest.FromString(body))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                """Nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Receive)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        """What exporters are given."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Collector:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def until(self, condition: Callable[[list[SeenSpan]], bool], patience_s: float = 60.0) -> None:
        """Return once what has come satisfies ``condition``. Raises: AssertionError with the names."""
        deadline_s = time.monotonic() + patience_s
        while not condition(self.spans):
            assert time.monotonic() < deadline_s, [(span.name, span.instance) for span in self.spans]
            time.sleep(0.05)


def _spans(request: ExportTraceServiceRequest) -> list[SeenSpan]:
    found = []
    for resource in request.resource_spans:
        about = {one.key: _value(one.value) for one in resource.resource.attributes}
        for scope in resource.scope_spans:
            found += [_span(span, about) for span in scope.spans]
    return found


def _span(span: Any, about: dict[str, Any]) -> SeenSpan:
    return SeenSpan(
        name=span.name,
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        service=str(about.get("service.name", "")),
        instance=str(about.get("service.instance.id", "")),
        attributes={one.key: _value(one.value) for one in span.attributes},
        events=[event.name for event in span.events],
        began_s=span.start_time_unix_nano / 1e9,
        is_error=span.status.code == 2,
    )


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(one) for one in value.array_value.values]
    return getattr(value, kind) if kind else None
