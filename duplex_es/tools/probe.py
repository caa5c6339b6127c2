"""Asking processes on this machine whether they are there: free ports, PING and small HTTP GETs."""

from __future__ import annotations

import asyncio
import socket

PROBE_TIMEOUT_S = 2.0

_given: set[int] = set()


def free_port(host: str = "127.0.0.1") -> int:
    """A TCP port of ``host`` that nobody listened on a moment ago, and that this process was not given before.

    Several servers are started one after the other: the port of one that does not listen yet is not another's.
    """
    while True:
        with socket.socket() as probe:
            probe.bind((host, 0))
            port = int(probe.getsockname()[1])
        if port not in _given:
            _given.add(port)
            return port


def is_free(host: str, port: int) -> bool:
    """Whether ``port`` can be listened on now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
        return True


async def http_get(host: str, port: int, path: str) -> tuple[int, str]:
    """Status and body of a plain GET, with no proxy between. Raises: OSError when no proper answer comes in time."""
    async with asyncio.timeout(PROBE_TIMEOUT_S):
        reader, writer = await asyncio.open_connection(host, port)
        try:
            writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n".encode())
            await writer.drain()
            answer = await reader.read()
        finally:
            writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    words = head.split(b" ", 2)
    if len(words) < 2 or not words[1].isdigit():
        raise OSError(f"{host}:{port} does not speak HTTP")
    return int(words[1]), body.decode(errors="replace")


async def answers_ping(host: str, port: int) -> bool:
    """Whether a Redis or Valkey server answers PING there."""
    try:
        async with asyncio.timeout(PROBE_TIMEOUT_S):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write(b"PING\r\n")
                await writer.drain()
                return (await reader.read(16)).startswith(b"+PONG")
            finally:
                writer.close()
    except OSError:
        return False
