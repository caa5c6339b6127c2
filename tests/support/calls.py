"""A call straight on the log, with no gateway: what a client says, what it is shown, and what must hold of any log."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgpack
import numpy as np

from duplex_es.log.api import (
    Attachment,
    Claim,
    Entry,
    EntryId,
    Head,
    Record,
    SessionLog,
    SessionRef,
    WorkerCard,
)
from duplex_es.log.errors import LogError, LogUnavailable
from duplex_es.log.memory import MemoryLog
from duplex_es.log.settings import LogSettings
from duplex_es.model import Emit, Model, ModelSession, OpenModel, Request
from duplex_es.protocol import AppendAudio, Command, Frame
from duplex_es.protocol.records import (
    OpeningAnswer,
    OpenSession,
    SocketAttached,
    SocketDetached,
    pack_input,
    unpack_opening,
    unpack_output,
)
from workers.host import Host

PATIENCE_S = 30.0


async def until(condition: Callable[[], bool], *, patience_s: float = PATIENCE_S) -> None:
    """Return once ``condition`` holds. Raises: TimeoutError."""
    async with asyncio.timeout(patience_s):
        while not condition():
            await asyncio.sleep(0.001)


def pcm16(ms: int, *, rate_hz: int = 16_000, hz: float = 300.0, level: float = 0.3) -> bytes:
    """A tone, or silence at ``level=0``, as mono 16-bit samples."""
    at = np.arange(rate_hz * ms // 1000)
    return np.rint(np.sin(2 * np.pi * hz * at / rate_hz) * level * 32767).astype("<i2").tobytes()


class Caller:
    """The client of one session. ``frames`` is what it was shown, by seq, read anew by ``catch_up``."""

    def __init__(self, log: SessionLog, attachment: Attachment) -> None:
        self.log = log
        self.ref = attachment.ref
        self.attachment = attachment
        self.frames: list[Frame] = []
        self._index = 0

    @classmethod
    async def open(
        cls, log: SessionLog, model: str, session_id: str = "call", *, updated: bool = True, **session: Any
    ) -> Caller:
        """Create the session with these settings, as a gateway does, and attach to it."""
        ref = await log.next_incarnation(session_id)
        said = OpenSession(session=session, model=model, updated=updated)
        attachment = await log.create(
            ref, model=model, token_digest=b"1", gateway="g1", record=pack_input(said, 0).body
        )
        caller = cls(log, attachment)
        await caller.say(SocketAttached(generation=attachment.generation, gateway="g1"))
        return caller

    async def say(self, *commands: Command | SocketAttached) -> None:
        """Append commands to the input, in order."""
        records = [Record(*pack_input(command, 0)) for command in commands]
        first, self._index = self._index + 1, self._index + len(records)
        await self.log.append_input(self.attachment, first, records)

    async def append(self, *chunks: bytes, **fields: Any) -> None:
        """Append audio, one command per chunk."""
        await self.say(*(AppendAudio(audio=chunk, **fields) for chunk in chunks))

    async def leave(self) -> None:
        """The socket goes away."""
        gone = SocketDetached(generation=self.attachment.generation, reason="client_closed")
        await self.log.detach(self.attachment, pack_input(gone, 0).body)

    async def answer(self) -> OpeningAnswer:
        """How the opening went, once that is known. Raises: TimeoutError."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                head = await self.log.head(self.ref.session_id)
                if head.opening is not None:
                    return unpack_opening(head.opening)
                await asyncio.sleep(0.001)

    async def catch_up(self) -> list[Frame]:
        """Read what came since the last call; returns all frames there are."""
        for entry in await all_output(self.log, self.ref, after_seq=len(self.frames)):
            frame = unpack_output(entry.body, entry.audio).frame
            assert isinstance(frame, Frame)
            self.frames.append(frame)
        return self.frames

    def heard(self, kind: str) -> list[Any]:
        """The frames of a wire type, as of the last ``catch_up``."""
        return [frame for frame in self.frames if frame_type(frame) == kind]

    async def hears(self, kind: str, count: int = 1) -> list[Any]:
        """Wait until ``count`` frames of a wire type were shown; returns them. Raises: TimeoutError."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                while len(self.heard(kind)) < count:
                    await asyncio.sleep(0.001)
                    await self.catch_up()
        except TimeoutError:
            raise TimeoutError(f"no {kind}, only {[frame_type(frame) for frame in self.frames]}") from None
        return self.heard(kind)

    async def ends(self, reason: str | None = None) -> None:
        """Wait until the log says that the session is over. Raises: TimeoutError."""
        async with asyncio.timeout(PATIENCE_S):
            while (await self.log.head(self.ref.session_id)).state != "closed":
                await asyncio.sleep(0.001)
        await self.catch_up()
        if reason is not None:
            closing = [frame for frame in self.frames if frame_type(frame) in ("session.closed", "session.expired")]
            assert [frame.reason for frame in closing] == [reason]


def frame_type(frame: Frame) -> str:
    """The wire name of a frame."""
    return str(type(frame).__struct_config__.tag)


async def all_output(log: SessionLog, ref: SessionRef, *, after_seq: int = 0) -> list[Entry]:
    """Every output entry above ``after_seq``."""
    entries: list[Entry] = []
    while more := await log.read_output(ref, entries[-1].id.number if entries else after_seq):
        entries += more
    return entries


async def check_log(log: SessionLog, ref: SessionRef, *, ended: bool = False) -> list[dict[str, Any]]:
    """Hold a session's output to the invariants of any log, read with nothing but a MessagePack reader.

    Consecutive seqs, each with one author and none of an older fence after a newer one; the consumed position never
    goes down; ``more`` counts down within a decision; facts only where a decision begins; each ``response.created``
    is followed by at most one ``response.done`` (exactly one with ``ended``), and no other answer begins between.
    Returns the record maps.
    """
    entries = await all_output(log, ref)
    bodies: list[dict[str, Any]] = [msgpack.unpackb(entry.body) for entry in entries]
    assert [entry.id.number for entry in entries] == list(range(1, len(entries) + 1))
    fences = [entry.id.generation for entry in entries]
    assert fences == sorted(fences)
    positions = [EntryId.parse(body["consumed"]) for body in bodies if "consumed" in body]
    assert positions == sorted(positions)
    more = 0
    for body in bodies:
        assert more == 0 or ("facts" not in body and body["more"] == more - 1)
        more = body["more"]
    assert more == 0, "the last decision is cut"
    check_responses([body["frame"] for body in bodies], ended=ended)
    return bodies


def check_responses(frames: list[dict[str, Any]], *, ended: bool) -> None:
    """Every answer that was announced ends once; what it shows lies between."""
    begun: list[str] = []
    done: list[str] = []
    for frame in frames:
        response_id = frame.get("response_id") or (frame.get("response") or {}).get("id")
        if frame["type"] == "response.created":
            assert response_id not in begun
            begun.append(response_id)
        elif frame["type"] == "response.done":
            assert response_id in begun
            assert response_id not in done
            done.append(response_id)
        elif frame["type"].startswith("response.output_"):
            assert response_id in begun
            assert response_id not in done
    assert not ended or sorted(begun) == sorted(done)


@asynccontextmanager
async def serving(log: SessionLog, model: Model, worker: str = "w1", **settings: Any) -> AsyncIterator[Host]:
    """A worker host that serves ``model`` until the block ends; then it must stop by itself."""
    settings = {"slots": 4, "drain_s": 5.0, **settings}
    host = Host(log, model, worker=worker, **settings)
    task = asyncio.create_task(host.run())
    try:
        yield host
    finally:
        host.stop()
        await asyncio.wait_for(task, PATIENCE_S)


class HinderedLog(MemoryLog):
    """A log that a test can hold up or break. ``held`` counts the appends that wait for ``gate`` to open."""

    def __init__(self, settings: LogSettings | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(settings, clock)
        self.gate = asyncio.Event()
        self.gate.set()
        self.held = 0
        self.away = False
        self.refusal: LogError | None = None

    def _answer(self) -> None:
        if self.away:
            raise LogUnavailable("the store does not answer")

    async def append_output(self, claim: Claim, first_seq: int, records: Sequence[Record]) -> None:
        """As the log does, once the gate is open."""
        if not self.gate.is_set():
            self.held += 1
            await self.gate.wait()
            self.held -= 1
        self._answer()
        if self.refusal is not None:
            raise self.refusal
        await super().append_output(claim, first_seq, records)

    async def connect(self) -> None:
        """As the log does, unless it is away."""
        self._answer()

    async def claim(self, worker: str, models: Sequence[str]) -> tuple[Claim, Head] | None:
        """As the log does, unless it is away."""
        self._answer()
        return await super().claim(worker, models)

    async def renew(self, attachments: Sequence[Attachment], claims: Sequence[Claim]) -> list[Attachment | Claim]:
        """As the log does, unless it is away."""
        self._answer()
        return await super().renew(attachments, claims)

    async def checkpoint(self, claim: Claim, checkpoint: bytes, *, opening: bytes | None = None) -> None:
        """As the log does, unless it is away."""
        self._answer()
        await super().checkpoint(claim, checkpoint, opening=opening)

    async def register(self, card: WorkerCard) -> None:
        """As the log does, unless it is away."""
        self._answer()
        await super().register(card)


class SpiedModel:
    """A model that notes what it is asked, in ``asked``, and fails where a test wants it to.

    ``breaks_at`` is the request type at which its session raises; ``opens`` is what ``open`` raises instead of opening;
    ``instead`` makes of a request of its type another one.
    """

    def __init__(self, model: Model) -> None:
        self.info = model.info
        self.asked: list[Request] = []
        self.emit: Emit | None = None
        self.breaks_at: type | None = None
        self.opens: Exception | None = None
        self.instead: dict[type, Callable[[Any], Request]] = {}
        self._model = model

    async def load(self) -> None:
        """Nothing to load."""

    async def unload(self) -> None:
        """Nothing to free."""

    async def open(self, request: OpenModel, emit: Emit) -> ModelSession:
        """Begin a session of the model behind."""
        self.asked.append(request)
        if self.opens is not None:
            raise self.opens
        self.emit = emit
        return _SpiedSession(self, await self._model.open(request, emit))

    def requests(self, kind: type) -> list[Any]:
        """What was asked of this type."""
        return [request for request in self.asked if isinstance(request, kind)]


class _SpiedSession:
    def __init__(self, spy: SpiedModel, session: ModelSession) -> None:
        self._spy = spy
        self._session = session

    async def perform(self, request: Request) -> None:
        self._spy.asked.append(request)
        if self._spy.breaks_at is type(request):
            raise RuntimeError("the model broke")
        await self._session.perform(self._spy.instead.get(type(request), lambda same: same)(request))
