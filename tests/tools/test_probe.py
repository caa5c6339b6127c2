"""Ports, PING and HTTP."""

from __future__ import annotations

import asyncio
import socket

import pytest

from duplex_es.tools.probe import answers_ping, free_port, http_get, is_free

pytestmark = pytest.mark.unit


async def answering(reply: bytes) -> tuple[asyncio.Server, int]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(reply)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    return server, server.sockets[0].getsockname()[1]


def test_a_port_somebody_listens_on_is_not_free() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert not is_free("127.0.0.1", taken.getsockname()[1])
    assert is_free("127.0.0.1", free_port())


def test_no_port_is_given_twice() -> None:
    ports = [free_port() for _ in range(300)]
    assert len(set(ports)) == 300


async def test_a_get_returns_status_and_body() -> None:
    server, port = await answering(b'HTTP/1.1 503 Service Unavailable\r\nContent-Type: x\r\n\r\n{"ready": false}')
    async with server:
        assert await http_get("127.0.0.1", port, "/readyz") == (503, '{"ready": false}')


@pytest.mark.parametrize("reply", [b"", b"-ERR unknown command\r\n", b"\x00\x01"])
async def test_what_is_not_http_is_an_os_error(reply: bytes) -> None:
    server, port = await answering(reply)
    async with server:
        with pytest.raises(OSError, match="does not speak HTTP"):
            await http_get("127.0.0.1", port, "/readyz")


async def test_nobody_there_is_an_os_error_and_no_pong() -> None:
    port = free_port()
    with pytest.raises(OSError):
        await http_get("127.0.0.1", port, "/")
    assert not await answers_ping("127.0.0.1", port)


async def test_only_a_pong_is_a_pong() -> None:
    for reply, expected in ((b"+PONG\r\n", True), (b"-LOADING\r\n", False)):
        server, port = await answering(reply)
        async with server:
            assert await answers_ping("127.0.0.1", port) is expected
