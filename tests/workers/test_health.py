"""``/healthz`` and ``/readyz`` over a real socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from duplex_es.log.memory import MemoryLog
from tests.support.processes import free_port
from workers.health import Health
from workers.host import LOG, MODEL, Host
from workers.models.echo import EchoModel

pytestmark = pytest.mark.unit


class Served:
    """A host that does not run, and its health port."""

    def __init__(self) -> None:
        self.host = Host(MemoryLog(), EchoModel({}), worker="w", slots=1)
        self.health = Health(self.host)
        self.port = free_port()

    async def send(self, request: bytes) -> bytes:
        """All that comes back until the server closes."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(request)
        await writer.drain()
        answer = await asyncio.wait_for(reader.read(), 30)
        writer.close()
        return answer

    async def get(self, path: str) -> tuple[int, dict[str, object]]:
        head, _, body = (await self.send(f"GET {path} HTTP/1.1\r\nHost: h\r\n\r\n".encode())).partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        assert f"Content-Length: {len(body)}" in lines
        assert "Content-Type: application/json" in lines
        return int(lines[0].split(" ")[1]), json.loads(body)


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    made = Served()
    await made.health.start("127.0.0.1", made.port)
    yield made
    await made.health.stop()


async def test_a_worker_is_alive_as_soon_as_it_listens(served: Served) -> None:
    assert await served.get("/healthz") == (200, {"status": "alive", "used": 0})


async def test_a_worker_that_takes_no_sessions_says_why(served: Served) -> None:  # V53
    served.host.readiness.fails(MODEL, "loading cascade")
    status, body = await served.get("/readyz")
    assert (status, body["ready"], body["reason"]) == (503, False, "loading cascade")
    checks: Any = body["checks"]
    assert {name: check.get("reason") for name, check in checks.items()} == {
        "serving": None,
        "model": "loading cascade",
        "log": "starting",
    }
    assert checks["model"]["since"].endswith("Z")


async def test_a_worker_that_takes_sessions_is_ready(served: Served) -> None:
    assert await served.get("/startupz") == (503, {"started": False})
    served.host.readiness.passes(LOG)
    status, body = await served.get("/readyz?verbose=1")
    assert (status, body["ready"]) == (200, True)
    assert await served.get("/startupz") == (200, {"started": True})


async def test_a_stopping_worker_is_not_ready_any_more(served: Served) -> None:
    served.host.readiness.passes(LOG)
    assert (await served.get("/readyz"))[0] == 200
    served.host.stop()
    status, body = await served.get("/readyz")
    assert (status, body["reason"]) == (503, "stopping")
    assert await served.get("/startupz") == (200, {"started": True})


async def test_nothing_else_is_served(served: Served) -> None:
    status, body = await served.get("/metrics/../etc")
    assert status == 404
    assert "/readyz" in str(body["error"])


@pytest.mark.parametrize("request_", [b"\r\n\r\n", b"nonsense\r\n\r\n", b"GET " + b"a" * 20_000])
async def test_what_is_no_request_gets_no_answer_and_harms_nobody(served: Served, request_: bytes) -> None:
    assert await served.send(request_) == b""
    assert (await served.get("/healthz"))[0] == 200


async def test_a_caller_that_hangs_up_early_harms_nobody(served: Served) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", served.port)
    writer.write(b"GET /hea")
    writer.close()
    await writer.wait_closed()
    assert (await served.get("/healthz"))[0] == 200


async def test_a_port_that_is_taken_is_said_to_be(served: Served) -> None:
    with pytest.raises(OSError, match="in use"):
        await Health(served.host).start("127.0.0.1", served.port)


async def test_stopping_what_never_started_is_nothing() -> None:
    await Served().health.stop()


async def test_after_stopping_nobody_answers(served: Served) -> None:
    await served.health.stop()
    with pytest.raises(OSError):
        await served.send(b"GET /healthz HTTP/1.1\r\n\r\n")
