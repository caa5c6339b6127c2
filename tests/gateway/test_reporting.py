"""The operators' port of a running gateway, and the figures that are looked up."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request

import pytest

from duplex_es.log.memory import MemoryLog
from duplex_es.observability.outlets import Outlets
from duplex_es.observability.prometheus import PrometheusMetrics
from gateway.reporting import Reporter
from gateway.service import Service
from tests.gateway.stage import FakeWorker, LoopbackServer, joined, settings_of, until
from tests.support.processes import free_port

pytestmark = pytest.mark.e2e


def got(port: int, path: str) -> tuple[int, str]:
    """Status and body of one GET."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


async def get(port: int, path: str) -> tuple[int, str]:
    """The same, without keeping the loop."""

    return await asyncio.to_thread(got, port, path)


async def test_operators_have_a_port_of_their_own_and_clients_see_nothing_of_it(log: MemoryLog) -> None:

    metrics_port = free_port()
    outlets = Outlets(PrometheusMetrics("gateway"))
    service = Service(settings_of(metrics_port=metrics_port), log, outlets)
    server = LoopbackServer(service)
    async with FakeWorker(log).working():
        task = asyncio.create_task(server.serve())
        await until(lambda: server.started)
        try:
            async with joined(f"ws://127.0.0.1:{server.port}/v1/realtime?duplex=1&model=cascade") as client:
                await client.hear_type("session.created")
                await until(lambda: bool(service.log_answers))
                status, text = await get(metrics_port, "/metrics")
                assert status == 200
                for line in (
                    "duplex_gateway_connections 1.0",
                    'duplex_gateway_sessions{model="cascade"} 1.0',
                    'duplex_ready{component="gateway"} 1.0',
                    'duplex_fleet_workers{model="cascade"} 1.0',
                    'duplex_fleet_slots{model="cascade",state="free"} 8.0',
                    'duplex_gateway_buffered_bytes{direction="up"} 0.0',
                    "duplex_gateway_blocked_clients 0.0",
                    'duplex_gateway_departures_total{how="cut"} 0.0',
                ):
                    assert line in text, line
                assert (await get(metrics_port, "/startupz"))[0] == 200
                status, text = await get(metrics_port, "/readyz")
                assert (status, json.loads(text)["checks"]["log"]["ok"]) == (200, True)
                assert json.loads((await get(metrics_port, "/healthz"))[1])["sockets"] == 1
                assert (await get(server.port, "/metrics"))[0] == 404
        finally:
            server.should_exit = True
            await task


async def test_a_model_whose_last_worker_is_gone_is_still_counted(log: MemoryLog) -> None:
    metrics = PrometheusMetrics("gateway")
    service = Service(settings_of(), log, Outlets(metrics))

    reporter = Reporter(service)
    async with FakeWorker(log).working():
        await reporter.count_fleet()
    await log.unregister("worker-1")
    await reporter.count_fleet()
    text = metrics.exposition().decode()
    assert 'duplex_fleet_workers{model="cascade"} 0.0' in text
    assert 'duplex_fleet_slots{model="cascade",state="free"} 0.0' in text
