"""A gateway on a loopback port, a worker with a handful of tricks, and a client, for the tests beside this file."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from duplex_es.log.api import START, Claim, Entry, Record, SessionLog, WorkerCard
from duplex_es.log.errors import LogError
from duplex_es.log.lanes import stop
from duplex_es.protocol import (
    AcknowledgeEvents,
    AppendAudio,
    AppendText,
    CloseSession,
    Error,
    ErrorBody,
    Frame,
    Heartbeat,
    OpeningAnswer,
    OpenSession,
    ProtocolError,
    RefuseCommand,
    Reported,
    ResponseOutputAudioDelta,
    ResponseOutputTextDelta,
    Said,
    SessionClosed,
    SessionHeartbeatAck,
    SessionUpdated,
    pack_opening,
    pack_output,
    unpack_input,
)
from gateway.archived import open_archive
from gateway.server import GatewayServer
from gateway.service import Service
from gateway.settings import Settings

PATIENCE_S = 30.0


@dataclass
class FakeWorker:
    """Serves every session of ``models``: opens it, answers heartbeats, texts and refusals, closes when asked.

    ``input.text.append`` with the text ``"say 3"`` shows three text deltas, with any other nothing. ``refusal``
    refuses every opening, ``mute`` opens none. ``heard`` is all that was said, by session.
    """

    log: SessionLog
    models: tuple[str, ...] = ("cascade",)
    slots: int = 8
    resumable: bool = True
    refusal: RefuseCommand | None = None
    mute: bool = False
    used: int = 0
    heard: dict[str, list[Said]] = field(default_factory=dict)
    claims: dict[str, Claim] = field(default_factory=dict)
    _seqs: dict[str, int] = field(default_factory=dict)

    @asynccontextmanager
    async def working(self) -> AsyncIterator[FakeWorker]:
        """Serve until the block ends."""
        await self.register()
        tasks = [asyncio.create_task(self._claim_all()), asyncio.create_task(self._renew())]
        try:
            yield self
        finally:
            # Not cancelled once: up to Python 3.11, asyncio.wait_for loses a cancellation that meets a result.
            await asyncio.gather(*(stop(task) for task in tasks))

    async def register(self) -> None:
        """Tell the fleet what there is."""
        card = WorkerCard("worker-1", {model: b"" for model in self.models}, self.slots, self.used)
        await self.log.register(card)

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(2.0)
            with contextlib.suppress(LogError):
                await self.log.renew([], list(self.claims.values()))
                await self.register()

    async def _claim_all(self) -> None:
        async with asyncio.TaskGroup() as sessions:
            while True:
                claimed = None if self.mute else await self.log.claim("worker-1", self.models)
                if claimed is None:
                    await self.log.wait_for_ready(0.05)
                    await asyncio.sleep(0.005)
                else:
                    sessions.create_task(self._serve(claimed[0]))

    async def _serve(self, claim: Claim) -> None:
        self.claims[claim.ref.session_id] = claim
        heard = self.heard.setdefault(claim.ref.session_id, [])
        with contextlib.suppress(LogError):
            async with self.log.follow_input(claim.ref) as follower:
                follower.start(START)
                async for entry in follower:
                    assert isinstance(entry, Entry)
                    said = unpack_input(entry.body, entry.audio).said
                    heard.append(said)
                    await self._react(claim, said)

    async def _react(self, claim: Claim, said: Said) -> None:
        session_id = claim.ref.session_id
        match said:
            case OpenSession():
                await self._open(claim, said)
            case Heartbeat():
                await self.show(session_id, SessionHeartbeatAck(session_id=session_id))
            case AppendText(text=text) if text.startswith("say "):
                deltas = [text_delta(f"word {index}") for index in range(int(text.removeprefix("say ")))]
                await self.show(session_id, *deltas)
            case AppendAudio(audio=audio):
                await self.show(session_id, audio_delta(audio))
            case AcknowledgeEvents():
                await self.show(session_id, error_frame("invalid_event_ack"))
            case RefuseCommand(code=code):
                await self.show(session_id, error_frame(code, said.event_id))
            case CloseSession():
                await self.end(
                    session_id, "session_close", SessionClosed(session_id=session_id, reason="session_close")
                )

    async def _open(self, claim: Claim, said: OpenSession) -> None:
        if self.refusal is not None:
            await self.log.checkpoint(claim, b"", opening=pack_opening(OpeningAnswer(error=self.refusal)))
            await self.log.close(claim, "refused")
            return
        session = {
            "id": claim.ref.session_id,
            "model": said.model,
            "extra_body": said.session.get("extra_body"),
            "capabilities": {"supports_session_resume": self.resumable},
        }
        if said.updated:
            await self.show(claim.ref.session_id, SessionUpdated(session=session))
        await self.log.checkpoint(claim, b"", opening=pack_opening(OpeningAnswer(session=session)))

    async def show(self, session_id: str, *frames: Frame) -> None:
        """Append one record for each frame."""
        records = [Record(*pack_output(1, frame=frame)) for frame in frames]
        seq = self._seqs.get(session_id, 0)
        self._seqs[session_id] = seq + len(records)
        await self.log.append_output(self.claims[session_id], seq + 1, records)

    async def end(self, session_id: str, reason: str, *frames: Frame) -> None:
        """Show ``frames``, then close the session in the log."""
        await self.show(session_id, *frames)
        await self.log.close(self.claims[session_id], reason)


def text_delta(text: str) -> ResponseOutputTextDelta:
    """A frame that says ``text``."""
    return ResponseOutputTextDelta(response_id="resp_1", item_id="item_resp_1", delta=text)


def audio_delta(audio: bytes) -> ResponseOutputAudioDelta:
    """A frame that sounds like ``audio``."""
    return ResponseOutputAudioDelta(response_id="resp_1", item_id="item_resp_1", delta=audio)


def error_frame(code: str, event_id: str | None = None) -> Error:
    """The frame of an error a worker reports."""
    error = ProtocolError(code, "as asked")
    return Error(error=ErrorBody(type=error.entry.type, code=code, message="as asked", event_id=event_id))


class LoopbackServer(GatewayServer):
    """A gateway inside the test's own event loop; signals stay the test runner's."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture nothing."""
        yield


@dataclass
class Gateway:
    """One running gateway."""

    service: Service
    port: int
    server: LoopbackServer

    def url(self, query: str = "duplex=1", path: str = "/v1/realtime") -> str:
        """Where its sockets are, with ``query`` (without the question mark); without one, those of seed clients."""
        return f"ws://127.0.0.1:{self.port}{path}{'?' if query else ''}{query}"


def settings_of(name: str = "gateway-1", **changes: Any) -> Settings:
    """Settings for a test: any free port, nothing slow."""
    return Settings(host="127.0.0.1", port=0, name=name, **{"renew_interval_s": 0.1, "drain_s": 0.3, **changes})


@asynccontextmanager
async def running(log: SessionLog, name: str = "gateway-1", **changes: Any) -> AsyncIterator[Gateway]:
    """A gateway on ``log`` that takes sockets; ``changes`` are to its settings."""
    settings = settings_of(name, **changes)
    service = Service(settings, log, archive=open_archive(settings, log) if settings.reads_archive else None)
    server = LoopbackServer(service)
    task = asyncio.create_task(server.serve())
    try:
        await until(lambda: server.started or task.done())
        if task.done():
            task.result()
        yield Gateway(service, server.port, server)
    finally:
        server.should_exit = True
        await task


@dataclass
class Client:
    """One client socket that reads and writes plain maps."""

    socket: ClientConnection

    async def say(self, type_: str, **fields: Any) -> None:
        """Send one event."""
        await self.socket.send(json.dumps({"type": type_, **fields}))

    async def hear(self) -> dict[str, Any]:
        """The next frame. Raises: ConnectionClosed."""
        async with asyncio.timeout(PATIENCE_S):
            frame: dict[str, Any] = json.loads(await self.socket.recv())
            return frame

    async def hear_type(self, type_: str) -> dict[str, Any]:
        """The next frame, which must be of this type."""
        frame = await self.hear()
        assert frame["type"] == type_, frame
        return frame

    async def hear_all(self) -> list[dict[str, Any]]:
        """Every frame up to the close."""
        frames = []
        with contextlib.suppress(ConnectionClosed):
            while True:
                frames.append(await self.hear())
        return frames

    async def closed(self) -> tuple[int | None, str | None]:
        """Code and reason of the close, which must come without another frame."""
        assert await self.hear_all() == []
        return self.socket.close_code, self.socket.close_reason

    async def open(self, **session: Any) -> dict[str, Any]:
        """Open a session by ``session.update``; returns ``session.created``."""
        await self.say("session.update", session=session)
        created = await self.hear_type("session.created")
        await self.hear_type("session.updated")
        return created

    async def resume(self, created: dict[str, Any], after_seq: int, **changes: Any) -> None:
        """Ask for the session that ``created`` (or ``session.resumed``) named."""
        session_id = created.get("session_id") or created["session"]["id"]
        event = {
            "session_id": session_id,
            "incarnation": created["incarnation"],
            "resume_token": created["resume_token"],
            "last_received_server_event_seq": after_seq,
        }
        await self.say("session.resume", **{**event, **changes})


@asynccontextmanager
async def joined(url: str, **options: Any) -> AsyncIterator[Client]:
    """A connected client; it does not wait long for a gateway that cannot answer its close."""
    async with connect(url, compression=None, proxy=None, close_timeout=0.5, **options) as socket:
        yield Client(socket)


async def until(condition: Callable[[], bool], patience_s: float = PATIENCE_S) -> None:
    """Return once ``condition`` holds. Raises: TimeoutError."""
    async with asyncio.timeout(patience_s):
        while not condition():
            await asyncio.sleep(0.005)


async def inputs_of(log: SessionLog, session_id: str) -> list[Said]:
    """All that stands in the input of the newest session of this id."""
    ref = (await log.head(session_id)).ref
    return [unpack_input(entry.body, entry.audio).said for entry in await log.read_input(ref, START)]


def types(said: Sequence[object]) -> list[str]:
    """The class names of what was said."""
    return [type(one).__name__ for one in said]


__all__ = ["Client", "FakeWorker", "Gateway", "LoopbackServer", "Reported", "inputs_of", "joined", "running", "types"]
