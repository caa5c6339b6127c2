"""The operators' port over a real socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from duplex_es.observability import catalogue
from duplex_es.observability.admin import AdminServer, Page, exposed, reported, started
from duplex_es.observability.prometheus import PrometheusMetrics
from duplex_es.observability.readiness import Readiness

pytestmark = pytest.mark.unit


async def _fine() -> Page:
    return Page.of({"fine": True})


async def _broken() -> Page:
    raise ValueError("no")


@pytest.fixture
async def server() -> AsyncIterator[AdminServer]:
    made = AdminServer({"/fine": _fine, "/broken": _broken})
    await made.start("127.0.0.1", 0)
    yield made
    await made.stop()


async def send(server: AdminServer, request: bytes) -> tuple[bytes, bytes]:
    """Status line and body."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(request)
    await writer.drain()
    head, _, body = (await asyncio.wait_for(reader.read(), 10)).partition(b"\r\n\r\n")
    writer.close()
    return head.split(b"\r\n")[0], body


@pytest.mark.parametrize(
    ("request_", "status", "body"),
    [
        (b"GET /fine HTTP/1.1\r\n\r\n", b"200", b'{"fine": true}'),
        (b"GET /fine?x=1 HTTP/1.1\r\n\r\n", b"200", b'{"fine": true}'),
        (b"HEAD /fine HTTP/1.1\r\n\r\n", b"200", b""),
        (b"POST /fine HTTP/1.1\r\n\r\n", b"405", b'{"error": "only GET is served here"}'),
        (b"GET /other HTTP/1.1\r\n\r\n", b"404", b'{"error": "served here are /broken, /fine"}'),
        (b"GET /broken HTTP/1.1\r\n\r\n", b"500", b'{"error": "ValueError"}'),
    ],
)
async def test_it_answers_what_there_is(server: AdminServer, request_: bytes, status: bytes, body: bytes) -> None:
    line, said = await send(server, request_)
    assert line.split(b" ")[1] == status
    assert said == body


@pytest.mark.parametrize("request_", [b"\r\n\r\n", b"GET\r\n\r\n", b"GET " + b"a" * 20_000])
async def test_what_is_no_request_harms_nobody(server: AdminServer, request_: bytes) -> None:
    await send(server, request_)
    assert (await send(server, b"GET /fine HTTP/1.1\r\n\r\n"))[0].startswith(b"HTTP/1.1 200")


def test_the_pages_that_both_programs_have() -> None:
    metrics, readiness = PrometheusMetrics("worker"), Readiness("log")
    metrics.count(catalogue.LOG_PIPELINES)
    page = exposed(metrics)
    assert page.content_type.startswith("text/plain") and b"duplex_log_pipelines_total 1.0" in page.body
    assert (reported(readiness).status, started(readiness).status) == (503, 503)
    readiness.passes("log")
    assert (reported(readiness).status, started(readiness).status) == (200, 200)
    readiness.fails("log", "gone")
    assert (reported(readiness).status, started(readiness).status) == (503, 200)
