"""Listing models."""

from __future__ import annotations

import asyncio
import json

import pytest

from duplex_es.tools import models
from duplex_es.tools.errors import ToolError
from duplex_es.tools.probe import free_port

pytestmark = pytest.mark.unit


async def gateway(status: int, body: str) -> tuple[asyncio.Server, str]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert (await reader.readline()).startswith(b"GET /v1/models ")
        writer.write(f"HTTP/1.1 {status} X\r\n\r\n{body}".encode())
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    return server, f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1/realtime"


async def test_a_gateway_is_asked_by_any_of_its_urls() -> None:
    listing = {"object": "list", "data": [{"id": "cascade", "owned_by": "duplex_es"}, {"id": "echo"}]}
    server, url = await gateway(200, json.dumps(listing))
    async with server:
        assert await models.offered(url) == [("cascade", "duplex_es"), ("echo", "")]
        assert await models.offered(url.split("/")[2]) == [("cascade", "duplex_es"), ("echo", "")]


@pytest.mark.parametrize(("status", "body"), [(503, '{"error": "no store"}'), (200, "[]"), (200, "oops")])
async def test_a_gateway_that_cannot_say_is_trouble_in_words(status: int, body: str) -> None:
    server, url = await gateway(status, body)
    async with server:
        with pytest.raises(ToolError, match=r"answers|does not list"):
            await models.offered(url)


async def test_nobody_there_is_trouble_in_words() -> None:
    with pytest.raises(ToolError, match="does not list its models"):
        await models.offered(f"127.0.0.1:{free_port()}")


def test_the_built_in_models_are_installed_under_their_names() -> None:
    names = dict(models.installed())
    assert {"cascade", "echo", "scripted"} <= set(names)
    assert names["echo"] == "workers.models.echo:PLUGIN"
