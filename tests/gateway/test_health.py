"""What probes and model lists are told."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from typing import Any

import pytest

from duplex_es.log.errors import LogUnavailable
from duplex_es.log.memory import MemoryLog
from tests.gateway.stage import FakeWorker, Gateway, joined, running

pytestmark = pytest.mark.e2e


class MissingLog(MemoryLog):
    """A log whose store was never there."""

    async def connect(self) -> None:
        """See ``SessionLog``."""
        raise LogUnavailable("127.0.0.1:6379: connection refused")


class ForgetfulLog(MemoryLog):
    """A log whose store is gone by now."""

    async def ping(self) -> None:
        """See ``SessionLog``."""
        raise LogUnavailable("gone")

    async def fleet(self):  # type: ignore[no-untyped-def]
        """See ``SessionLog``."""
        raise LogUnavailable("gone")


async def get(gateway: Gateway, path: str) -> tuple[int, dict[str, Any]]:
    """Status and JSON body of one GET."""

    def fetch() -> tuple[int, dict[str, Any]]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{gateway.port}{path}", timeout=10) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    return await asyncio.to_thread(fetch)


async def test_a_gateway_with_its_log_is_alive_and_ready(gateway: Gateway) -> None:
    async with joined(gateway.url("duplex=1&model=cascade")) as client:
        await client.hear_type("session.created")
        assert await get(gateway, "/healthz") == (200, {"status": "ok", "gateway": "gateway-1", "sockets": 1})
    status, body = await get(gateway, "/readyz")
    assert (status, body["ready"], "reason" in body) == (200, True, False)
    assert {name: check["ok"] for name, check in body["checks"].items()} == {"serving": True, "log": True}


async def test_models_are_those_of_the_workers_in_the_openai_shape(log: MemoryLog) -> None:
    async with FakeWorker(log, models=("echo", "cascade")).working(), running(log) as gateway:
        status, body = await get(gateway, "/v1/models")
    assert (status, body["object"]) == (200, "list")
    assert [model["id"] for model in body["data"]] == ["cascade", "echo"]
    assert {(model["object"], model["owned_by"]) for model in body["data"]} == {("model", "duplex_es")}


async def test_without_its_log_it_is_alive_not_ready_and_says_why_everywhere() -> None:
    async with running(MissingLog()) as gateway:
        assert (await get(gateway, "/healthz"))[0] == 200
        for path, field in (("/readyz", "reason"), ("/v1/models", "error")):
            status, body = await get(gateway, path)
            assert status == 503
            assert "connection refused" in str(body[field])
        async with joined(gateway.url("duplex=1&model=cascade")) as client:
            assert (await client.hear_type("error"))["code"] == "log_unavailable"
            assert await client.closed() == (1013, "log_unavailable")


async def test_a_log_that_went_away_is_noticed_by_the_probe_and_by_newcomers() -> None:
    async with running(ForgetfulLog()) as gateway:
        status, body = await get(gateway, "/readyz")
        assert (status, body["reason"]) == (503, "LogUnavailable: gone")
        assert (await get(gateway, "/v1/models"))[0] == 503
        async with joined(gateway.url("duplex=1&model=cascade")) as client:
            assert (await client.hear_type("error"))["error"]["code"] == "log_unavailable"
            assert await client.closed() == (1013, "log_unavailable")
