"""Real WebSockets for a client under test that can be cut, made to lose what is sent, and kept from being opened."""

from __future__ import annotations

import asyncio

from websockets.asyncio.client import ClientConnection

from duplex_es.client.transport import Transport, websocket_connector


class LossyTransport:
    """One WebSocket. After ``lose`` what is sent is gone without a sign, as in the buffers of a dead connection."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._loses = False
        self.lost_count = 0

    async def send(self, message: str, /) -> None:
        if self._loses:
            self.lost_count += 1
        else:
            await self._socket.send(message)

    async def recv(self) -> str | bytes:
        return await self._socket.recv()

    async def close(self) -> None:
        await self._socket.close()

    def lose(self) -> None:
        """Lose all that is sent from now on."""
        self._loses = True

    def cut(self) -> None:
        """End the connection without a goodbye."""
        self._socket.transport.abort()


class Lines:
    """The ``connect`` option of a client: ``opened`` are its sockets so far, ``may_open`` holds further ones back."""

    def __init__(self) -> None:
        self.opened: list[LossyTransport] = []
        self.may_open = asyncio.Event()
        self.may_open.set()
        self._open = websocket_connector(open_timeout_s=10)

    async def connect(self, url: str) -> Transport:
        """A socket to ``url``."""
        await self.may_open.wait()
        socket = await self._open(url)
        assert isinstance(socket, ClientConnection)
        self.opened.append(LossyTransport(socket))
        return self.opened[-1]
