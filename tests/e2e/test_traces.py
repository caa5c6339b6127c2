"""One trace from the client's request through gateway, log and worker, also when the worker is another one by then."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import websockets

from tests.support import incidents
from tests.support.collector import Collector, SeenSpan
from tests.support.talking import Caller, calling
from tests.support.watched import WatchedStack

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

TRACE, CLIENT_SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with Collector() as collector:
        yield collector


@pytest.fixture(scope="module")
def stack(collector: Collector) -> Iterator[WatchedStack]:
    """Two gateways and a worker that export every span, as OpenTelemetry's usual variables would have them."""
    exported = ("--otlp-endpoint", collector.url)
    with WatchedStack(gateway_options=exported) as stack:
        stack.add_gateway()
        stack.add_gateway()
        stack.add_worker("scripted", *exported)
        yield stack


def session(*steps: dict[str, Any]) -> dict[str, Any]:
    return {"model": "scripted", "extra_body": {"auto_response": False, "script": list(steps)}}


async def test_one_trace_spans_gateway_log_and_worker_and_goes_on_after_a_takeover(
    stack: WatchedStack, collector: Collector
) -> None:
    header = {"traceparent": f"00-{TRACE}-{CLIENT_SPAN}-01"}
    async with websockets.connect(f"{stack.urls[0]}?autostart=0", additional_headers=header) as socket:
        call = Caller(socket)
        await call.say(type="session.update", session=session(incidents.ENDLESS))
        await call.hear_until("session.updated")
        created = call.heard[0]
        await call.say(type="response.create")
        await call.hear_until("response.output_audio.delta")
        stack.workers[0].process.kill()
        successor = stack.add_worker("scripted", "--otlp-endpoint", collector.url)
        while " claimed, " not in successor.all_words:
            await call.hear_until("response.output_audio.delta")
        call.socket.transport.abort()
    async with calling(stack.urls[1], query="?autostart=0") as again:
        await again.say(
            type="session.resume", session_id=created["session"]["id"], resume_token=created["resume_token"]
        )
        await again.hear_until("session.resumed")
        await again.say(type="response.cancel")
        await again.hear_until("response.done")
        await again.say(type="session.close")
        await again.hear_until("session.closed")

    def of_call(spans: list[SeenSpan]) -> list[SeenSpan]:
        return [span for span in spans if span.trace_id == TRACE]

    def has_all(spans: list[SeenSpan]) -> bool:
        sockets = [span for span in of_call(spans) if span.name == "duplex.socket"]
        ended = [span for span in of_call(spans) if span.instance == successor.name and span.name == "chat scripted"]
        return len(sockets) == 2 and bool(ended)

    collector.until(has_all)
    spans = of_call(collector.spans)
    first, second = sorted((span for span in spans if span.name == "duplex.socket"), key=lambda span: span.began_s)
    assert first.parent_id == CLIENT_SPAN
    assert (first.instance, second.instance) == (stack.gateways[0].name, stack.gateways[1].name)
    assert second.parent_id == first.span_id, "a resume without a header goes on in the trace of its session"
    session_id = created["session"]["id"]
    assert {span.attributes.get("gen_ai.conversation.id", session_id) for span in spans} == {session_id}

    resumed = next(span for span in spans if span.name == "duplex.resume")
    assert resumed.parent_id == second.span_id and resumed.attributes["duplex.replayed_frames"] > 0
    takeover = next(span for span in spans if span.name == "duplex.takeover")
    assert (takeover.instance, takeover.parent_id) == (successor.name, first.span_id)
    answer = next(span for span in spans if span.name == "chat scripted" and span.instance == successor.name)
    assert answer.attributes["duplex.response.continued"] is True
    assert answer.attributes["gen_ai.operation.name"] == "chat"
    assert answer.attributes["gen_ai.request.model"] == "scripted"
    assert answer.attributes["gen_ai.response.finish_reasons"] == ["client_cancelled"]
    assert {span.service for span in spans} == {"duplex-es-gateway", "duplex-es-worker"}


async def test_a_call_without_a_header_has_a_trace_of_its_own_with_its_function_call(
    stack: WatchedStack, collector: Collector
) -> None:
    before = len(collector.spans)
    await incidents.chat(stack.urls[0])
    collector.until(lambda spans: any(span.name == "execute_tool get_weather" for span in spans[before:]))
    collector.until(lambda spans: any(span.name == "duplex.socket" for span in spans[before:]))
    call = next(span for span in collector.spans[before:] if span.name == "execute_tool get_weather")
    socket = next(span for span in collector.spans[before:] if span.name == "duplex.socket")
    assert (call.trace_id, call.parent_id) == (socket.trace_id, socket.span_id)
    assert socket.parent_id == "" and socket.trace_id != TRACE
    assert call.attributes["gen_ai.tool.name"] == "get_weather"
