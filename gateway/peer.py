"""The client at the other end of a socket: says things, hears things, and may be gone at any moment.

Being gone is an ordinary answer here, never an exception.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect

from duplex_es.protocol.dialects import agreed_subprotocol

from .dialects import Told, Voice
from .watching import SocketWatch

FAREWELL_S = 5.0
"""How long the last frame and the close may take to leave for a peer that does not read."""

_LOST_CODES = frozenset({1005, 1006, 1011, 1012})


@dataclass(frozen=True, slots=True)
class Gone:
    """The peer said goodbye with ``code``, or its connection was lost."""

    code: int

    @property
    def said_goodbye(self) -> bool:
        """Whether the peer itself closed: then it had received what was sent before. A loss proves nothing."""
        return self.code not in _LOST_CODES


class Peer:
    """One accepted socket. One task receives; any task may send, a frame is never cut by another.

    ``said`` counts the text and binary frames received; ``voice`` is how the client is spoken to.
    ``watch`` looks on. ``waiting_bytes`` is what was handed over and not yet taken.
    """

    def __init__(self, websocket: WebSocket, watch: SocketWatch | None = None) -> None:
        self._websocket = websocket
        self.watch = watch or SocketWatch()
        self._gone: Gone | None = None
        self._kept: str | bytes | None = None
        self._blocked_s: float | None = None
        self.said = self.waiting_bytes = 0
        self.voice = Voice()

    @property
    def dialect(self) -> str:
        """What the client is spoken to in now."""
        return self.voice.dialect

    async def accept(self) -> None:
        """Complete the upgrade, agreeing to a subprotocol where one we speak is offered."""
        offered = self._websocket.scope.get("subprotocols", ())
        try:
            await self._websocket.accept(agreed_subprotocol(offered))
        except (WebSocketDisconnect, RuntimeError):
            self._gone = Gone(1006)

    async def receive(self) -> str | bytes | Gone:
        """The next frame: text, or bytes for a binary one; ``Gone`` from the end on."""
        if self._kept is not None:
            kept, self._kept = self._kept, None
            return kept
        if self._gone is not None:
            return self._gone
        message = await self._websocket.receive()
        if message["type"] == "websocket.disconnect":
            self._gone = Gone(message.get("code") or 1005)
            return self._gone
        self.said += 1
        text = message.get("text")
        heard = text if text is not None else message["bytes"]
        self.watch.received(len(heard))
        return heard

    async def while_here(self, work: Coroutine[Any, Any, None]) -> Gone | None:
        """Do ``work``, but give it up when the peer goes meanwhile: then ``Gone``. The next ``receive`` misses nothing.

        Raises: whatever ``work`` raises.
        """
        doing = asyncio.ensure_future(work)
        hearing = asyncio.ensure_future(self.receive())
        try:
            await asyncio.wait({doing, hearing}, return_when=asyncio.FIRST_COMPLETED)
            if hearing.done() and not doing.done() and isinstance(gone := hearing.result(), Gone):
                return gone
            await doing
            return None
        finally:
            doing.cancel()
            hearing.cancel()
            await asyncio.gather(doing, hearing, return_exceptions=True)
            if not hearing.cancelled() and not isinstance(heard := hearing.result(), Gone):
                self._kept = heard

    def blocked_for_s(self) -> float:
        """For how long the peer has taken nothing of what it is sent; 0 while there is nothing, or it takes it."""
        return 0.0 if self._blocked_s is None else asyncio.get_running_loop().time() - self._blocked_s

    async def send(self, text: str) -> bool:
        """Send one text frame; returns whether it left. Waits while the peer is slow to read."""
        if self._blocked_s is not None:
            return await self._pass_on({"type": "websocket.send", "text": text})
        self._blocked_s, self.waiting_bytes = asyncio.get_running_loop().time(), len(text)
        try:
            return await self._pass_on({"type": "websocket.send", "text": text})
        finally:
            self._blocked_s, self.waiting_bytes = None, 0

    async def tell(self, told: Told, *, event_id: str | None = None, seq: int | None = None) -> bool:
        """Say ``told`` in the client's dialect: several text frames, one or none. Returns whether all left."""
        self.watch.told(told)
        for text in self.voice.texts(told, event_id=event_id, seq=seq):
            if not await self.send(text):
                return False
            self.watch.sent(len(text))
        return True

    async def close(self, code: int = 1000, reason: str = "", last: Told | None = None) -> None:
        """Send ``last``, if given, and close; gives up on both when the peer takes nothing for ``FAREWELL_S``."""
        try:
            async with asyncio.timeout(FAREWELL_S):
                if last is None or await self.tell(last):
                    await self._pass_on({"type": "websocket.close", "code": code, "reason": reason})
        except TimeoutError:
            self._gone = self._gone or Gone(1006)

    async def _pass_on(self, message: dict[str, object]) -> bool:
        try:
            await self._websocket.send(message)
        except (WebSocketDisconnect, RuntimeError):
            # Starlette and uvicorn each raise RuntimeError of their own for a socket that is closed already.
            return False
        return True
