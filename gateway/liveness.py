"""uvicorn's WebSocket protocol with a stricter idea of death and a milder one of life.

Anything a peer sends proves that it lives, not only the pong to the newest ping: a pong stuck behind audio, or
behind a stalled event loop, must not end a good call. What is dead is cut off at once: closing politely would wait
for buffers that nobody empties.
"""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

UNREAD_BYTES = 64 * 1024
"""What is held for a peer that does not read, besides the one frame that went beyond it."""
SECOND_LOOK_S = 0.5
"""After a ping timed out: time to read what may already lie in the socket, because the loop itself was late."""


class LivelySocket(WebSocketsSansIOProtocol):
    """One connection. A peer that is silent from a ping to ``ping_timeout`` after it is aborted, never sooner."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._heard_s = 0.0
        self._looked_twice = False

    def data_received(self, data: bytes) -> None:
        """Note the sign of life."""
        self._heard_s = self.loop.time()
        super().data_received(data)

    def connection_made(self, transport: Any) -> None:
        """As uvicorn, but say how much is held for a peer that does not read."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=UNREAD_BYTES)

    def handle_ping(self) -> None:
        """As uvicorn, but a peer that does not read gets no pong: it could have any number of them kept for it."""
        pong = b"".join(self.conn.data_to_send())
        if self.writable.is_set():
            self.transport.write(pong)

    def keepalive_timeout(self) -> None:
        """The pong to the last ping is missing: decide whether the peer is."""
        self.pong_timer = None
        if self.close_sent or self.transport.is_closing():
            return
        if self._heard_s > self.ping_sent_at or self.read_paused:
            # Paused reading says that this process is behind, and nothing about the peer.
            self._looked_twice = False
            self.pending_ping_payload = None
            self.schedule_ping()
        elif not self._looked_twice:
            self._looked_twice = True
            self.pong_timer = self.loop.call_later(SECOND_LOOK_S, self.keepalive_timeout)
        else:
            self.transport.abort()

    async def send(self, message: Any) -> None:
        """As uvicorn, but a close waits for nobody, and one that the peer does not answer in time is cut off."""
        if message["type"] == "websocket.close":
            self.writable.set()  # A few bytes more, and the last ones.
        await super().send(message)
        if message["type"] == "websocket.close" and self.close_timer is not None:
            self.close_timer.cancel()
            self.close_timer = self.loop.call_later(self.close_timeout, self.transport.abort)

    async def run_asgi(self) -> None:
        """As uvicorn, but what the peer has not taken some time after the application ended is cut off."""
        await super().run_asgi()
        if self.close_timer is None and not self.disconnected:
            self.loop.call_later(self.close_timeout, self.transport.abort)
