"""A caller that goes through faults: it asks, hears, resumes elsewhere when a socket breaks, and keeps every byte."""

from __future__ import annotations

import asyncio
import base64
import json
import random
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import websockets
from websockets.asyncio.client import ClientConnection

WORDS = ("amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heron", "inlet", "jetty", "knoll", "larch")
BYTES_PER_MS = 32
"""Of 16 kHz PCM16."""
RESUME = "?duplex=1&autostart=0"
BUSY = frozenset({"duplex_session_busy", "resource_exhausted"})
COME_BACK = frozenset({"log_unavailable", "internal_error", "runtime_resume_failed"})
"""Refusals that a client of the contract tries again after."""
CONNECT_S = 5.0
LIMIT_S = 90.0

Wire = dict[str, Any]


def code_of(wire: Wire) -> str:
    """The code of an error in either shape, flat as at the door or in the Realtime envelope; else the frame's type."""
    if wire["type"] != "error":
        return str(wire["type"])
    inner = wire.get("error")
    return str(inner["code"] if isinstance(inner, dict) else wire.get("code"))


def retry_after_of(wire: Wire) -> float | None:
    """How long an error asks to wait, in seconds, in either shape; ``None`` when it does not say."""
    inner = wire.get("error")
    for holder in (wire, inner if isinstance(inner, dict) else {}):
        if isinstance(holder.get("retry_after_ms"), int | float):
            return float(holder["retry_after_ms"]) / 1000
    return None


@dataclass(frozen=True, slots=True)
class Heard:
    """One frame as it came over the socket, and when (``time.monotonic``)."""

    at_s: float
    text: str
    wire: Wire

    @property
    def seq(self) -> int | None:
        """Its ``server_event_seq``, if it has one."""
        return self.wire.get("server_event_seq")


@dataclass(slots=True)
class Line:
    """One socket of a caller. ``after_seq`` is what the caller had when the socket began."""

    url: str
    after_seq: int
    frames: list[Heard] = field(default_factory=list)
    left: int | None = None
    """How many frames the caller had taken from it when it turned to another; later ones are only watched."""
    code: int | None = None

    @property
    def taken(self) -> list[Heard]:
        """What the caller heard on it while it was the caller's line."""
        return self.frames if self.left is None else self.frames[: self.left]

    @property
    def granted(self) -> bool:
        """Whether the service gave the session to this socket."""
        return any(heard.wire["type"] in ("session.created", "session.resumed") for heard in self.frames)


class Talker:
    """One client: opens a session, asks ``questions`` after another, and closes. ``run`` it once.

    ``lines`` keeps every socket with all it heard, ``asked`` every question, ``told`` what the service said when it
    would not go on (``None``: the session was closed as asked). A socket silent for ``patience_s`` while an answer is
    due is given up for another one but read on, as a client with two networks would. The caller talks on until
    ``over`` is set; then it has at least one more answer before it closes.

    Its habits: ``idles`` waits for that in silence, ``races`` resumes on two sockets at once. The microphone sends
    ``murmur_ms`` of silence every ``murmur_s``; a next question comes ``pause_s`` after an answer. ``answer`` is what
    the model says whatever is asked. With ``durable`` it asks to be told up to which ``durable_seq`` all would survive.
    """

    def __init__(self, number: int, urls: Sequence[str], draw: random.Random, *, first: int = 0, **habits: Any) -> None:
        self.number = number
        self.urls = urls  # the same list as everybody's: gateways come and go
        self.lines: list[Line] = []
        self.asked: list[str] = []
        self.statuses: list[str] = []
        self.told: str | None = None
        self.closed = False
        self.refused_resumes: list[str] = []
        self.over = asyncio.Event()
        self.talking = asyncio.Event()
        self.acknowledged = 0
        self.durable_seq = 0
        self.session_id = ""
        self.incarnation = 0
        self.patience_s: float = habits.get("patience_s", 30.0)
        self.questions: int = habits.get("questions", 2)
        self.words: int = habits.get("words", 8)
        self.model: str = habits.get("model", "echo")
        self.answer: str = habits.get("answer", "")
        self.murmur_s: float = habits.get("murmur_s", 0.2)
        self.durable: bool = habits.get("durable", False)
        self.pause_s: float = habits.get("pause_s", 0.0)
        self.murmur_ms: int = habits.get("murmur_ms", 200)
        self.idles: bool = habits.get("idles", False)
        self.races: bool = habits.get("races", False)
        self.limit_s: float = habits.get("limit_s", LIMIT_S)
        """How long the whole call may take."""
        self.moves = False
        """Set, it resumes on another socket although the one it has is sound."""
        self.session: Wire = {}
        """More settings of its session."""
        self.returns = True
        """Whether it resumes at all."""
        self.may_return = asyncio.Event()
        """Unset, it waits with that."""
        self.may_return.set()
        self.asked_again = 0
        """Questions that it asked a second time because it could not know whether they had arrived."""
        self.race_wins: list[int] = []
        self.stall_s = 0.0
        """How long to stop reading, after the next frame."""
        self._draw = draw
        self._at = first
        self._socket: ClientConnection | None = None
        self._watchers: set[asyncio.Task[None]] = set()
        self._token = ""
        self._granted = False
        self._open_response = False
        self._owed = False
        self._answered = 0
        self._goal: int | None = None
        self._told_to_wait_s: float | None = None
        self._said: list[tuple[str, Wire]] = []

    @property
    def line(self) -> Line:
        """The socket in use, or the last one."""
        return self.lines[-1]

    @property
    def socket(self) -> ClientConnection:
        """The connection in use. Raises: RuntimeError before the first."""
        if self._socket is None:
            raise RuntimeError("not connected")
        return self._socket

    @property
    def last_seq(self) -> int:
        """The last seq this caller took."""
        for line in reversed(self.lines):
            for heard in reversed(line.taken):
                if heard.seq is not None:
                    return heard.seq
        return 0

    async def run(self) -> None:
        """Live the whole call. What goes wrong is in ``told``; only a broken test raises."""
        microphone: asyncio.Task[None] | None = None
        try:
            async with asyncio.timeout(self.limit_s):
                await self._open()
                microphone = asyncio.create_task(self._murmur())
                while self.told is None and not self.closed:
                    await self._go_on()
        except TimeoutError:
            self.told = f"nothing: still waiting after {self.limit_s:g} s, {self.standing}"
        finally:
            for task in (microphone, *self._watchers):
                if task is not None:
                    task.cancel()
            await asyncio.gather(*self._watchers, return_exceptions=True)
            if self._socket is not None:
                self._socket.transport.abort()

    @property
    def standing(self) -> str:
        """Where the call stands, for a failing test."""
        kinds = [heard.wire["type"] for line in self.lines for heard in line.frames[-4:]]
        return f"answered {self._answered} of {self.questions}, seq {self.last_seq}, last {kinds[-6:]}"

    # -- one step --------------------------------------------------------------------------------------------------

    async def _go_on(self) -> None:
        if self.moves:
            self.moves = False
            await self._come_back()
        if self._goal is None and self.over.is_set():
            self._goal = max(self.questions, self._answered + 1 + self._owed)
        waits = self.idles and self._answered > 0 and not self.over.is_set()
        if not self._owed and self._goal is not None and self._answered >= self._goal:
            await self._close()
            return
        if not self._owed and not waits:
            await asyncio.sleep(self.pause_s if self._answered else 0.0)
            await self._ask()
        try:
            self._take(await self._hear(0.2 if waits else self.patience_s))
        except TimeoutError:
            if not waits:
                await self._come_back()
        except (websockets.ConnectionClosed, OSError):
            await self._come_back()

    async def _open(self) -> None:
        for attempt in range(40):
            await self._connect(0)
            await self._say(type="session.update", session={"model": self.model, **self.session})
            try:
                while True:
                    wire = (await self._hear(40.0)).wire
                    if wire["type"] == "session.created":
                        self._adopt(wire)
                        self.session_id = wire["session"]["id"]
                        return
                    if wire["type"] == "error":
                        break
            except (websockets.ConnectionClosed, TimeoutError):
                wire = {"type": "error", "code": "connection"}
            self.lines.pop()
            if code_of(wire) not in BUSY | COME_BACK | {"connection", "runtime_open_failed"}:
                break
            await asyncio.sleep(0.1 + attempt / 20)
        raise RuntimeError(f"the session was not opened: {wire}")

    async def _ask(self) -> None:
        text = " ".join(self._draw.choice(WORDS) for _ in range(self.words))
        self.asked.append(text)
        self._owed, self._open_response = True, False
        await self._ask_for(text)

    async def _ask_for(self, text: str) -> None:
        item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
        await self._say_once({"type": "conversation.item.create", "item": item}, {"type": "response.create"})

    async def _say_once(self, *events: Wire) -> None:
        """Say what must arrive: under ids, by which a resumed session tells what did."""
        first = len(self._said)
        self._said += [(f"said_{first + number}", event) for number, event in enumerate(events)]
        for event_id, event in self._said[first:]:
            await self._say(**event, event_id=event_id)

    async def _close(self) -> None:
        await self._say(type="session.close")
        with suppress(websockets.ConnectionClosed, TimeoutError):
            while not self.closed and self.told is None:
                self._take(await self._hear(20.0))
        if not self.closed and self.told is None:
            await self._come_back()

    async def _murmur(self) -> None:
        silence = base64.b64encode(bytes(self.murmur_ms * BYTES_PER_MS)).decode()
        while True:
            await asyncio.sleep(self.murmur_s)
            if not self._granted:
                continue  # the first word on a socket is the one that takes the session up
            await self._say(type="input_audio_buffer.append", audio=silence, is_speech=False)

    # -- hearing ---------------------------------------------------------------------------------------------------

    async def _hear(self, limit_s: float) -> Heard:
        async with asyncio.timeout(limit_s):
            text = await self.socket.recv()
        heard = Heard(time.monotonic(), str(text), json.loads(text))
        self.line.frames.append(heard)
        if self.stall_s:
            stall_s, self.stall_s = self.stall_s, 0.0
            await asyncio.sleep(stall_s)
        return heard

    def _take(self, heard: Heard) -> None:
        wire = heard.wire
        match wire["type"]:
            case "response.created":
                self._open_response = True
                if not self.idles:
                    self.talking.set()
            case "response.done":
                self.statuses.append(wire["response"]["status"])
            case "rate_limits.updated":
                self._owed, self._open_response = False, False
                self._answered += 1
                self.talking.set()
            case "session.durable":
                self.durable_seq = max(self.durable_seq, wire["durable_seq"])
            case "session.closed":
                self.closed = True
            case "session.expired" | "session.resync_required":
                self.told = f"{wire['type']}:{wire.get('reason', '')}"
            case "error" if code_of(wire) == "worker_lost" and not self._open_response:
                self._owed = False
        if heard.seq is not None and heard.seq % 20 == 0:
            self.acknowledged = heard.seq
            task = asyncio.create_task(self._say(type="session.event_ack", server_event_seq=heard.seq))
            self._watchers.add(task)
            task.add_done_callback(self._watchers.discard)

    # -- coming back -----------------------------------------------------------------------------------------------

    async def _come_back(self) -> None:
        """Leave the line as it is and resume on the next gateway, as often as it takes."""
        self._leave_line()
        if not self.returns:
            self.told = "left"
            return
        await self.may_return.wait()
        for attempt in range(60):
            self._at += 1
            if await (self._race() if self.races and not self.race_wins else self._resume()):
                await self._say_what_is_missing()
                return
            if self.told is not None:
                return
            wait_s = min(1.0, 0.1 + attempt * 0.1) * self._draw.uniform(0.5, 1.0)
            await asyncio.sleep(wait_s if self._told_to_wait_s is None else self._told_to_wait_s)
        self.told = f"no resume: {self.refused_resumes[-3:]}"

    async def _say_what_is_missing(self) -> None:
        """Say again what did not arrive over the earlier sockets, and nothing else, where the service can tell."""
        resumed = next(heard.wire for heard in self.line.frames if heard.wire["type"] == "session.resumed")
        if "last_client_event_id" in resumed:
            last = resumed["last_client_event_id"]
            arrived = next((at for at, (event_id, _) in enumerate(self._said) if event_id == last), -1)
            for event_id, event in self._said[arrived + 1 :]:
                await self._say(**event, event_id=event_id)
        elif self._owed and not self._open_response:
            # Whether the question arrived is not known yet; one that is asked twice is answered twice.
            task = asyncio.create_task(self._ask_again(len(self.asked), self._answered))
            self._watchers.add(task)
            task.add_done_callback(self._watchers.discard)

    async def _ask_again(self, question: int, answered: int) -> None:
        await asyncio.sleep(1.5)
        if (len(self.asked), self._answered) == (question, answered) and self._owed and not self._open_response:
            self.asked_again += 1
            await self._ask_for(self.asked[-1])

    async def _resume(self) -> bool:
        after_seq = self.last_seq
        self._told_to_wait_s = None
        try:
            await self._connect(after_seq)
            await self._say(**self.resume_command(after_seq))
            while True:
                wire = (await self._hear(CONNECT_S)).wire
                if wire["type"] == "session.resumed":
                    self._adopt(wire)
                    return True
                if wire["type"] in ("error", "session.expired", "session.resync_required"):
                    break
        except (OSError, TimeoutError, websockets.WebSocketException) as failure:
            self.refused_resumes.append(type(failure).__name__)
            if self.lines and not self.line.frames:
                self.lines.pop()
            return False
        code = code_of(wire)
        self.refused_resumes.append(code)
        self.socket.transport.abort()
        self._told_to_wait_s = retry_after_of(wire)
        if code not in COME_BACK and self._told_to_wait_s is None:
            self.told = code
        return False

    async def _race(self) -> bool:
        """Resume on two sockets at the same moment with the same token; go on with the one that wins."""
        after_seq = self.last_seq
        command = self.resume_command(after_seq)
        lines: list[tuple[Line, ClientConnection]] = []
        for _ in range(2):
            self._at += 1
            await self._connect(after_seq)
            lines.append((self.lines.pop(), self.socket))
        for _, self._socket in lines:
            await self._say(**command)
        self.race_wins.append(0)
        for line, self._socket in lines:
            self.lines.append(line)
            wire = (await self._hear(CONNECT_S)).wire
            if wire["type"] == "session.resumed":
                self.race_wins[-1] += 1
                self._adopt(wire)
                winner = (line, self._socket)
            else:
                self.refused_resumes.append(code_of(wire))
                self.lines.remove(line)
        if not self.race_wins[-1]:
            return False
        self.lines.append(self.lines.pop(self.lines.index(winner[0])))
        self._socket = winner[1]
        return True

    def resume_command(self, after_seq: int) -> Wire:
        """What this client says to take its session up."""
        return {
            "type": "session.resume",
            "session_id": self.session_id,
            "incarnation": self.incarnation,
            "resume_token": self._token,
            "last_received_server_event_seq": after_seq,
        }

    def _adopt(self, wire: Wire) -> None:
        self._token, self.incarnation = wire["resume_token"], wire["incarnation"]
        self._granted = True

    async def _connect(self, after_seq: int) -> None:
        url = self.urls[self._at % len(self.urls)]
        self._granted = False
        try:
            self._socket = await websockets.connect(
                f"{url}{RESUME}{'&durable=1' * self.durable}",
                max_size=None,
                ping_interval=None,
                open_timeout=CONNECT_S,
                close_timeout=0.5,
            )
        except (OSError, TimeoutError, websockets.WebSocketException):
            if after_seq == 0 and not self.lines:
                self._at += 1
            raise
        self.lines.append(Line(url, after_seq))

    def _leave_line(self) -> None:
        line, socket = self.line, self.socket
        line.left = len(line.frames)
        if socket.state is websockets.State.OPEN:
            task = asyncio.create_task(self._watch(line, socket))
            self._watchers.add(task)
            task.add_done_callback(self._watchers.discard)
        else:
            line.code = socket.close_code

    async def _watch(self, line: Line, socket: ClientConnection) -> None:
        """Keep what still comes over a line that was left, to the end."""
        try:
            async for text in socket:
                line.frames.append(Heard(time.monotonic(), str(text), json.loads(text)))
            line.code = socket.close_code
        except websockets.ConnectionClosed:
            line.code = socket.close_code
        finally:
            socket.transport.abort()

    async def _say(self, **event: Any) -> None:
        # A socket that is gone is the reader's to notice; what was said into it may be lost.
        with suppress(websockets.ConnectionClosed, OSError, TimeoutError):
            async with asyncio.timeout(2.0):
                await self.socket.send(json.dumps(event))
