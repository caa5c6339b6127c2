"""The connection under a benchmark's client: counts what passes, and can be cut like a cable."""

from __future__ import annotations

from websockets.asyncio.client import ClientConnection

from ...client.transport import Transport, websocket_connector
from .takes import SessionTake

OPEN_TIMEOUT_S = 30.0


class CutConnector:
    """Opens WebSockets for one client; ``cut`` ends the current one as a pulled cable would."""

    def __init__(self, take: SessionTake) -> None:
        self._take = take
        self._open = websocket_connector(open_timeout_s=OPEN_TIMEOUT_S)
        self._current: _Counted | None = None

    async def connect(self, url: str) -> Transport:
        """A counted connection to ``url``. Raises: as the transport does."""
        counted = _Counted(await self._open(url), self._take)
        self._current = counted
        return counted

    async def cut(self) -> None:
        """End the current connection, if there is one."""
        current, self._current = self._current, None
        if current is not None:
            await current.cut()


class _Counted:
    def __init__(self, transport: Transport, take: SessionTake) -> None:
        self._transport = transport
        self._take = take

    async def send(self, message: str, /) -> None:
        self._take.sent_bytes += len(message)
        await self._transport.send(message)

    async def recv(self) -> str | bytes:
        message = await self._transport.recv()
        self._take.received_bytes += len(message)
        return message

    async def close(self) -> None:
        await self._transport.close()

    async def cut(self) -> None:
        """End it without a closing handshake, where the transport allows that."""
        if isinstance(self._transport, ClientConnection):
            self._transport.transport.abort()
        else:
            await self._transport.close()
