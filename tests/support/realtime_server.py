"""An in-memory Realtime server for client tests: each connection is played by a coroutine of the test."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

GONE = object()


class ServerSocket:
    """The server's end of one connection, and the client's transport in ``client``."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.received: list[dict[str, Any]] = []
        self.client = ClientTransport(self)
        self._to_server: asyncio.Queue[Any] = asyncio.Queue()
        self._to_client: asyncio.Queue[Any] = asyncio.Queue()
        self.is_broken = False
        self._news = asyncio.Event()

    def note(self, command: dict[str, Any]) -> None:
        """Take one command from the client's end."""
        self.received.append(command)
        self._to_server.put_nowait(command)
        self._news.set()

    async def heard(self, type: str, count: int = 1) -> list[dict[str, Any]]:
        """The first ``count`` commands of ``type``, once they are there; takes nothing from the script's ``hear``."""
        while len(found := [command for command in self.received if command["type"] == type]) < count:
            self._news.clear()
            await self._news.wait()
        return found[:count]

    async def hear(self, *types: str) -> dict[str, Any]:
        """The next command of one of ``types`` (any, if none is named); others are kept in ``received`` and skipped."""
        while True:
            command = await self._to_server.get()
            if not types or command["type"] in types:
                return command

    async def say(self, *events: dict[str, Any] | str | bytes) -> None:
        """Send events (or raw frames) to the client."""
        for event in events:
            await self._to_client.put(json.dumps(event) if isinstance(event, dict) else event)

    async def drop(self) -> None:
        """Break the connection without a word; what was said before still arrives."""
        self.is_broken = True
        await self._to_client.put(GONE)

    def types(self) -> list[str]:
        """The types of everything heard so far."""
        return [command["type"] for command in self.received]


class ClientTransport:
    """The client's end: what ``DuplexClient`` sends to and receives from."""

    def __init__(self, socket: ServerSocket) -> None:
        self._socket = socket

    async def send(self, message: str, /) -> None:
        if self._socket.is_broken:
            raise ConnectionResetError("the other side is gone")
        self._socket.note(json.loads(message))
        await asyncio.sleep(0)

    async def recv(self) -> str | bytes:
        message = await self._socket._to_client.get()
        if message is GONE:
            self._socket.is_broken = True
            raise ConnectionResetError("the other side is gone")
        return message

    async def close(self) -> None:
        if not self._socket.is_broken:
            await self._socket.drop()


class FakeServer:
    """Plays ``script`` on each connection; hosts named in ``down`` refuse to connect."""

    def __init__(self, script: Callable[[ServerSocket], Awaitable[None]]) -> None:
        self.sockets: list[ServerSocket] = []
        self.dialled: list[str] = []
        self.down: set[str] = set()
        self._script = script
        self._tasks: list[asyncio.Task[None]] = []

    async def connect(self, url: str) -> ClientTransport:
        """A ``Connect`` for the client under test."""
        self.dialled.append(url)
        if any(host in url for host in self.down):
            raise ConnectionRefusedError(f"{url} is down")
        socket = ServerSocket(url)
        self.sockets.append(socket)
        self._tasks.append(asyncio.create_task(self._play(socket)))
        return socket.client

    async def _play(self, socket: ServerSocket) -> None:
        try:
            await self._script(socket)
        except BaseException:
            # A mistake in a script must not leave the client waiting.
            await socket.drop()
            raise

    async def finish(self) -> None:
        """Stop all scripts; raises what one of them raised."""
        for task in self._tasks:
            if not task.done():
                task.cancel()
        for outcome in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(outcome, Exception):
                raise outcome


def session_created(session_id: str = "sess_1", *, token: str | None = "rt_1") -> dict[str, Any]:
    """A ``session.created``; without ``token`` the session cannot be resumed."""
    resumable = {} if token is None else {"resume_token": token, "incarnation": 0, "attachment_generation": 1}
    return {"type": "session.created", "session": {"id": session_id, "object": "realtime.session"}, **resumable}


def session_resumed(session_id: str = "sess_1", *, token: str = "rt_2", **fields: Any) -> dict[str, Any]:
    """A ``session.resumed`` that rotates the token. Only with ``last_client_event_id`` it tells what arrived."""
    return {"type": "session.resumed", "session_id": session_id, "incarnation": 0, "resume_token": token, **fields}


def numbered(seq: int, type: str = "session.heartbeat_ack", **fields: Any) -> dict[str, Any]:
    """A sequenced event."""
    return {"type": type, "server_event_seq": seq, **fields}


def error(code: str, **fields: Any) -> dict[str, Any]:
    """An error in the nested envelope."""
    return {"type": "error", "error": {"type": "invalid_request_error", "code": code, "message": "no", **fields}}
