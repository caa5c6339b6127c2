"""WebSockets without a network: an ASGI scope, receive and send for a gateway, and the client's end.

Each direction keeps its order and has a latency. A break loses what is under way; who is told, and when, is up to it.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from typing import Any

from .loop import Process, SimulatedLoop

LATENCY_S = (0.0002, 0.002)
PING_TIMEOUT_S = 6.0
"""When a gateway finds that a peer which vanished without a word is gone."""


class Closed(Exception):
    """The socket is over; ``code`` as the client sees it."""

    def __init__(self, code: int) -> None:
        super().__init__(f"closed with {code}")
        self.code = code


class Socket:
    """One WebSocket between a client and a gateway's process."""

    def __init__(self, loop: SimulatedLoop, draw: random.Random, client: Process, server: Process, query: str) -> None:
        self.loop = loop
        self.client = client
        self.server = server
        self.scope: dict[str, Any] = {
            "type": "websocket",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.1",
            "scheme": "ws",
            "path": "/v1/realtime",
            "raw_path": b"/v1/realtime",
            "root_path": "",
            "query_string": query.encode(),
            "headers": [(b"host", b"simulated")],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 8099),
            "subprotocols": [],
            "state": {},
        }
        self.silent = False
        self._draw = draw
        self._up: deque[dict[str, Any]] = deque([{"type": "websocket.connect"}])
        self._down: deque[str] = deque()
        self._up_at_s = self._down_at_s = 0.0
        self._server_wakes: asyncio.Future[None] | None = None
        self._client_wakes: asyncio.Future[None] | None = None
        self._server_gone = False
        self._code: int | None = None

    def _after(self, previous_s: float) -> float:
        low, high = LATENCY_S
        return max(previous_s, self.loop.time() + low + (high - low) * self._draw.random())

    # -- the gateway's end ---------------------------------------------------------------------------------------------

    async def receive(self) -> dict[str, Any]:
        """ASGI's."""
        while not self._up:
            self._server_wakes = self.loop.create_future()
            await self._server_wakes
        return self._up.popleft()

    async def send(self, message: dict[str, Any]) -> None:
        """ASGI's. Raises: OSError once the peer is known to be gone."""
        if self._server_gone:
            raise OSError("the client is gone")
        match message["type"]:
            case "websocket.send":
                if not self.silent:
                    self._down_at_s = at = self._after(self._down_at_s)
                    self.loop.call_at(at, self._client_hears, message["text"], context=self.client.context)
            case "websocket.close":
                self._server_gone = True
                if not self.silent:
                    at = self._after(self._down_at_s)
                    self.loop.call_at(at, self._client_ends, message.get("code", 1000), context=self.client.context)
            case "websocket.http.response.start":
                self._server_gone = True
                self.loop.call_at(self._after(0.0), self._client_ends, 1006, context=self.client.context)

    def _server_hears(self, message: dict[str, Any]) -> None:
        if self._server_gone:
            return
        if message["type"] == "websocket.disconnect":
            self._server_gone = True
        self._up.append(message)
        waiter, self._server_wakes = self._server_wakes, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    # -- the client's end ----------------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """As far as the client knows."""
        return self._code is None

    def say(self, text: str) -> None:
        """Send one text frame; into a broken socket it is lost."""
        if self._code is None and not self.silent and self.server.alive:
            self._up_at_s = at = self._after(self._up_at_s)
            message = {"type": "websocket.receive", "text": text}
            self.loop.call_at(at, self._server_hears, message, context=self.server.context)

    async def hear(self) -> str:
        """The next text frame. Raises: Closed."""
        while not self._down:
            if self._code is not None:
                raise Closed(self._code)
            self._client_wakes = self.loop.create_future()
            await self._client_wakes
        return self._down.popleft()

    def _client_hears(self, text: str) -> None:
        if self._code is None:
            self._down.append(text)
            self._wake_client()

    def _client_ends(self, code: int) -> None:
        if self._code is None:
            self._code = code
            self._wake_client()

    def _wake_client(self) -> None:
        waiter, self._client_wakes = self._client_wakes, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    # -- ends ----------------------------------------------------------------------------------------------------------

    def hang_up(self, code: int = 1000) -> None:
        """The client closes politely: the gateway hears all that was said before."""
        at = self._after(self._up_at_s)
        goodbye = {"type": "websocket.disconnect", "code": code}
        self.loop.call_at(at, self._server_hears, goodbye, context=self.server.context)
        self._client_ends(code)

    def cut(self) -> None:
        """The connection is reset: both ends find out, and what was under way is gone."""
        self.silent = True
        lost = {"type": "websocket.disconnect", "code": 1006}
        self.loop.call_at(self._after(0.0), self._server_hears, lost, context=self.server.context)
        self.loop.call_at(self._after(0.0), self._client_ends, 1006, context=self.client.context)

    def vanish(self) -> None:
        """The path is gone without a word: nothing passes any more, and the gateway finds out by its pings."""
        self.silent = True
        lost = {"type": "websocket.disconnect", "code": 1006}
        self.loop.call_at(self.loop.time() + PING_TIMEOUT_S, self._server_hears, lost, context=self.server.context)

    def server_died(self) -> None:
        """The gateway's process ended."""
        self.loop.call_at(self._after(self._down_at_s), self._client_ends, 1006, context=self.client.context)
