"""How uvicorn is set up, and how it stops."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from duplex_es.log.memory import MemoryLog
from gateway.liveness import LivelySocket
from gateway.server import GatewayServer, server_config
from gateway.service import Service
from tests.gateway.stage import settings_of, until

pytestmark = pytest.mark.e2e


def test_the_configuration_is_the_measured_one() -> None:
    config = server_config(Service(settings_of(), MemoryLog()))
    assert (config.ws, config.loop) == (LivelySocket, "uvloop")
    assert not config.ws_per_message_deflate
    assert config.ws_max_size == 32 * 1024 * 1024
    assert (config.ws_ping_interval, config.ws_ping_timeout) == (10.0, 18.0)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_drains_and_is_used_up(number: signal.Signals) -> None:
    service = Service(settings_of(), MemoryLog())
    server = GatewayServer(service)
    task = asyncio.create_task(server.serve())
    await until(lambda: server.started)
    assert server.port > 0
    os.kill(os.getpid(), number)
    await asyncio.wait_for(task, 30)
    assert service.stopping
