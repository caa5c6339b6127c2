"""A recorded caller on the line again: what it said goes to a running service, which decides and answers anew."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import websockets
from websockets.asyncio.client import ClientConnection

from ...client import build_realtime_url
from ...log.api import Head, SessionRef
from ...protocol import (
    AcknowledgeEvents,
    CloseSession,
    Command,
    ForkSession,
    OpenSession,
    RefuseCommand,
    ResumeSession,
    SocketAttached,
    SocketDetached,
    encode_command,
)
from ...reading.source import Source
from ..errors import ToolError
from ..log.states import state_at
from .forking import Anew
from .pace import Cue, Pace, Tell

HANDSHAKE_S = 30.0
BREAKS = (OSError, websockets.WebSocketException)


@dataclass(slots=True)
class Replayed:
    """What came of it. ``late`` things were said although frames that came before them in the recording had not."""

    session_id: str = ""
    said: int = 0
    left_out: int = 0
    late: int = 0
    frames: int = 0
    answers: int = 0
    errors: int = 0
    ended: str = ""


class Line:
    """The replaying client. ``resumes`` a session that is there already, or opens one as ``session_id``."""

    def __init__(self, url: str, head: Head, anew: Anew, session_id: str, *, patience_s: float) -> None:
        self.found = Replayed(session_id=session_id)
        self.last_seq = 0
        self._url, self._head, self._anew = url, head, anew
        self._patience_s = patience_s
        self._socket: ClientConnection | None = None
        self._reader: asyncio.Task[None] | None = None
        self._token: str | None = None
        self._incarnation = 0
        self._missing = 0
        self._news = asyncio.Event()
        self._is_open = False

    # -- the socket ------------------------------------------------------------------------------------------------

    async def dial(self, **query: Any) -> None:
        """A socket to the service. Raises: ToolError."""
        url = build_realtime_url(self._url, self._head.model, **query)
        try:
            self._socket = await websockets.connect(url, max_size=None, open_timeout=HANDSHAKE_S)
        except BREAKS as error:
            raise ToolError(f"{self._url} does not answer: {error}") from error
        self._reader = asyncio.create_task(self._read(self._socket))

    async def open(self, said: OpenSession) -> None:
        """Open the session as the recorded client did. Raises: ToolError when it is refused."""
        session_id = self.found.session_id
        if not said.updated:
            await self.dial(session_id=session_id)
        else:
            await self.dial(autostart=False)
            session = {**said.session, "model": self._head.model, "session_id": session_id}
            await self._send({"type": "session.update", "session": session})
        await self._until(lambda: self._is_open)

    async def resume(self, token: str, incarnation: int, after_seq: int) -> None:
        """Take up a session. Raises: ToolError when it is refused."""
        self._token, self._incarnation, self.last_seq = token, incarnation, after_seq
        await self._resume()

    async def _resume(self) -> None:
        self._is_open = False
        await self.dial(autostart=False)
        await self._send(
            {
                "type": "session.resume",
                "session_id": self.found.session_id,
                "incarnation": self._incarnation,
                "resume_token": self._token,
                "last_received_server_event_seq": self.last_seq,
            }
        )
        await self._until(lambda: self._is_open)

    async def hang_up(self) -> None:
        """Let the socket go without a word. Idempotent."""
        if self._socket is not None:
            await self._socket.close()
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)
        self._socket = self._reader = None

    async def _read(self, socket: ClientConnection) -> None:
        with contextlib.suppress(*BREAKS):
            async for text in socket:
                self._hear(json.loads(text))
                self._news.set()
        self._news.set()

    def _hear(self, frame: dict[str, Any]) -> None:
        kind, found = frame.get("type"), self.found
        seq = frame.get("server_event_seq")
        if isinstance(seq, int):
            self.last_seq, found.frames = max(self.last_seq, seq), found.frames + 1
        if kind in ("session.created", "session.resumed"):
            self._token, self._is_open = frame.get("resume_token", self._token), True
            self._incarnation = frame.get("incarnation", self._incarnation)
        elif kind == "response.done":
            found.answers += 1
        elif kind == "error":
            found.errors += 1
            if not self._is_open:
                found.ended = f"refused: {(frame.get('error') or {}).get('message')}"
        elif kind in ("session.closed", "session.expired"):
            found.ended = str(frame.get("reason") or kind)

    async def _send(self, event: Mapping[str, Any]) -> None:
        if self._socket is None:
            return
        try:
            await self._socket.send(json.dumps(event))
        except BREAKS:
            self._news.set()

    async def _until(self, is_so: Any) -> None:
        """Raises: ToolError when it never will be."""
        try:
            async with asyncio.timeout(HANDSHAKE_S):
                while not is_so():
                    if self.found.ended or self._reader is None or self._reader.done():
                        raise ToolError(f"{self._url} did not open the session: {self.found.ended or 'it hung up'}")
                    await self._wait()
        except TimeoutError as error:
            raise ToolError(f"{self._url} did not open the session within {HANDSHAKE_S:g} s") from error

    async def _wait(self) -> None:
        self._news.clear()
        await self._news.wait()

    # -- what was said ---------------------------------------------------------------------------------------------

    async def heed(self, seq: int) -> float:
        """Wait until the frame ``seq`` was heard, but not for ever; for how many seconds that was."""
        loop = asyncio.get_running_loop()
        began_s, seq = loop.time(), seq - self._missing
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._patience_s):
                while self.last_seq < seq and not self.found.ended and self._reader and not self._reader.done():
                    await self._wait()
        if self.last_seq < seq and not self.found.ended:
            # This service says less than was recorded: it is not waited for again.
            self.found.late += 1
            self._missing += seq - self.last_seq
        return loop.time() - began_s

    async def say(self, cue: Cue) -> None:
        """Say one thing again, or do what the socket did."""
        said = cue.heard.said
        match said:
            case OpenSession():
                await self.open(said)
            case SocketAttached():
                if self._socket is None and self._token is not None:
                    await self._resume()
            case SocketDetached():
                await self.hang_up()
            case AcknowledgeEvents() | ForkSession():
                pass  # What it has heard is this client's own to say.
            case RefuseCommand() | ResumeSession():
                self.found.left_out += 1
            case _:
                await self._command(said)

    async def _command(self, said: Command) -> None:
        plain = self._anew.plain(json.loads(encode_command(said)))
        await self._send(plain)
        self.found.said += 1
        if isinstance(said, CloseSession):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._patience_s):
                    while not self.found.ended and self._reader and not self._reader.done():
                        await self._wait()


async def ids_of(source: Source, head: Head, session_id: str, incarnation: int = 0) -> Anew:
    """What makes the ids of the recorded session those that a new one will mint."""
    standing = await state_at(source, head, head.output.number)
    return Anew(head.ref, SessionRef(session_id, incarnation), standing.session)


async def say_again(line: Line, cues: Any, pace: Pace, tell: Tell, *, last_seq: int) -> Replayed:
    """Say everything again and hear the rest; what came of it. Raises: ToolError."""
    try:
        async for cue in cues:
            if line.found.ended:
                break
            await pace.wait(cue.heard.at_ms, cue.name, tell)
            pace.delayed_by(await line.heed(cue.after_seq))
            await line.say(cue)
        await line.heed(last_seq)
    finally:
        await line.hang_up()
    return line.found
