"""Many clients that hold a session and say nothing, and one that asks for much and reads nothing."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import websockets
from websockets.asyncio.client import ClientConnection, connect

from tests.support.chaos_talker import RESUME, code_of, retry_after_of

CONNECT_S = 20.0
FIRST_WAIT_S, LONGEST_WAIT_S = 0.25, 4.0
"""How long a client waits before it tries again when nobody told it how long, doubled each time."""
AT_ONCE = 16
"""Sessions that are opened side by side before the storm."""

Wire = dict[str, Any]


@dataclass(slots=True)
class Refused:
    """A resume that was turned away, and what was said about when to try again; ``None`` if nothing was."""

    code: str
    retry_after_s: float | None


@dataclass(slots=True)
class Idler:
    """One client that opens a session, loses its socket, and comes back. ``back_s`` is how long that took."""

    number: int
    urls: Sequence[str]
    draw: random.Random
    seqs: list[int] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    waits_s: list[float] = field(default_factory=list)
    back_s: float | None = None
    told: str | None = None
    session_id: str = ""
    _incarnation: int = 0
    _token: str = ""
    _socket: ClientConnection | None = None

    async def open(self) -> None:
        """Open the session. Raises: RuntimeError with the last refusal when that fails again and again."""
        refusal: object = None
        for _ in range(8):
            try:
                async with asyncio.timeout(CONNECT_S):
                    await self._connect()
                    await self._say(type="session.update", session={"model": "echo"})
                    refusal = wire = await self._hear_until("session.created", "error")
                if wire["type"] == "session.created":
                    self.session_id = wire["session"]["id"]
                    self._adopt(wire)
                    return
            except (OSError, TimeoutError, websockets.WebSocketException) as failure:
                refusal = failure
            self.leave()
            await asyncio.sleep(self.draw.uniform(0.2, 1.0))
        raise RuntimeError(f"idler {self.number} was not let in: {refusal!r}")

    async def come_back(self, deadline_s: float) -> None:
        """Resume on any gateway, as often as it takes until ``deadline_s`` (``time.monotonic``)."""
        began_s, wait_s = time.monotonic(), FIRST_WAIT_S
        while time.monotonic() < deadline_s:
            refusal = await self._try_to_resume()
            if refusal is None:
                self.back_s = time.monotonic() - began_s
                return
            self.refused.append(refusal)
            if self.told is not None:
                return
            if refusal.retry_after_s is None:
                pause_s = wait_s * self.draw.uniform(0.5, 1.0)
                wait_s = min(LONGEST_WAIT_S, wait_s * 2)
            else:
                pause_s = refusal.retry_after_s
            self.waits_s.append(pause_s)
            await asyncio.sleep(pause_s)

    async def close(self) -> None:
        """End the session, so that its slot is free, and the socket."""
        with suppress(OSError, TimeoutError, websockets.WebSocketException):
            async with asyncio.timeout(CONNECT_S):
                await self._say(type="session.close")
                await self._hear_until("session.closed", "error")
        self.leave()

    def leave(self) -> None:
        """Drop the socket."""
        if self._socket is not None:
            self._socket.transport.abort()

    async def gone(self) -> None:
        """Return once the socket is lost, taking what comes until then."""
        with suppress(websockets.ConnectionClosed, OSError):
            while True:
                self._take(json.loads(await self._open_socket().recv()))

    async def _try_to_resume(self) -> Refused | None:
        after_seq = self.seqs[-1] if self.seqs else 0
        try:
            async with asyncio.timeout(CONNECT_S):
                await self._connect()
                await self._say(
                    type="session.resume",
                    session_id=self.session_id,
                    incarnation=self._incarnation,
                    resume_token=self._token,
                    last_received_server_event_seq=after_seq,
                )
                wire = await self._hear_until(
                    "session.resumed", "error", "session.expired", "session.resync_required", "session.closed"
                )
        except websockets.InvalidStatus as refusal:
            after = refusal.response.headers.get("Retry-After")
            return Refused(str(refusal.response.status_code), float(after) if after else None)
        except (OSError, TimeoutError, websockets.WebSocketException) as failure:
            return Refused(type(failure).__name__, None)
        if wire["type"] == "session.resumed":
            self._adopt(wire)
            return None
        self.leave()
        retry_after_s = retry_after_of(wire)
        if retry_after_s is None and code_of(wire) not in ("log_unavailable", "internal_error"):
            self.told = code_of(wire)
        return Refused(code_of(wire), retry_after_s)

    async def _connect(self) -> None:
        url = self.urls[self.draw.randrange(len(self.urls))]
        self._socket = await connect(
            f"{url}{RESUME}", max_size=None, ping_interval=None, open_timeout=None, close_timeout=0.5
        )

    async def _say(self, **event: Any) -> None:
        await self._open_socket().send(json.dumps(event))

    async def _hear_until(self, *kinds: str) -> Wire:
        while True:
            wire: Wire = json.loads(await self._open_socket().recv())
            self._take(wire)
            if wire["type"] in kinds:
                return wire

    def _take(self, wire: Wire) -> None:
        seq = wire.get("server_event_seq")
        if seq is not None:
            self.seqs.append(seq)

    def _open_socket(self) -> ClientConnection:
        if self._socket is None:
            raise RuntimeError("not connected")
        return self._socket

    def _adopt(self, wire: Wire) -> None:
        self._token, self._incarnation = wire["resume_token"], wire["incarnation"]


async def open_all(idlers: Sequence[Idler]) -> None:
    """Open the sessions of all, a few at a time. Raises: RuntimeError when one is not let in."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(idler: Idler) -> None:
        async with gate:
            await idler.open()

    async with asyncio.TaskGroup() as group:
        for idler in idlers:
            group.create_task(one(idler))


class Hog:
    """A client that asks for a long answer and reads nothing of it, until it reads everything."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.session_id = ""
        self.seqs: list[int] = []
        self._socket: ClientConnection | None = None

    async def open(self) -> None:
        """Open the session."""
        self._socket = await connect(
            f"{self.url}{RESUME}", max_size=None, ping_interval=None, max_queue=4, open_timeout=CONNECT_S
        )
        await self._say(type="session.update", session={"model": "echo"})
        wire = await self._hear_until("session.created")
        self.session_id = wire["session"]["id"]

    async def ask(self, words: int) -> None:
        """Ask for an answer of so many words; its sound is 9.6 kB a word before it is encoded."""
        item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "amber " * words}]}
        await self._say(type="conversation.item.create", item=item)
        await self._say(type="response.create")

    async def read_on(self, limit_s: float) -> None:
        """Read until the answer is over. Raises: TimeoutError."""
        async with asyncio.timeout(limit_s):
            await self._hear_until("response.done")

    async def close(self) -> None:
        """End the session and the socket."""
        with suppress(OSError, TimeoutError, websockets.WebSocketException):
            async with asyncio.timeout(CONNECT_S):
                await self._say(type="session.close")
                await self._hear_until("session.closed")
        if self._socket is not None:
            self._socket.transport.abort()

    async def _say(self, **event: Any) -> None:
        if self._socket is None:
            raise RuntimeError("not connected")
        await self._socket.send(json.dumps(event))

    async def _hear_until(self, kind: str) -> Wire:
        if self._socket is None:
            raise RuntimeError("not connected")
        while True:
            wire: Wire = json.loads(await self._socket.recv())
            if wire.get("server_event_seq") is not None:
                self.seqs.append(wire["server_event_seq"])
            if wire["type"] == kind:
                return wire
