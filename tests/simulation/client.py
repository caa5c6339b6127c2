"""A simulated client: speaks the protocol as its documentation says, resumes where it must, and keeps all it saw."""

from __future__ import annotations

import asyncio
import math
import random
from base64 import b64encode
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec

from .fleet import MODEL, Fleet, GatewayProcess
from .loop import SimulatedLoop
from .sockets import Closed, Socket

WORDS = ("amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heron", "inlet", "jetty", "knoll", "larch")
RATE_HZ = 24_000
OPEN_QUERY = "duplex=1"
RESUME_QUERY = "duplex=1&autostart=0"
DURABLE = "&durable=1"
COME_BACK = frozenset({"log_unavailable", "internal_error", "runtime_resume_failed", "config_timeout"})
"""After these a client tries again; the last is what a gateway says that was stalled when the first event came."""
TRY_AGAIN = COME_BACK | {"duplex_session_busy", "resource_exhausted", "runtime_open_failed", "connection", "patience"}
TRY_AGAIN |= {"session.expired", "session.resync_required"}
PATIENCE_S = 6.0
ANSWER_S = 3.0
REFUSED_S = 15.0
"""So long a token is tried again which the session may have exchanged for one that never arrived."""
Wire = dict[str, Any]
_decode = msgspec.json.Decoder(dict[str, Any]).decode
_encode = msgspec.json.Encoder().encode


def code_of(wire: Wire) -> str:
    """The code of an error in either shape; else the frame's type."""
    if wire["type"] != "error":
        return str(wire["type"])
    inner = wire.get("error")
    return str(inner["code"] if isinstance(inner, dict) else wire.get("code"))


@dataclass(slots=True)
class Line:
    """One socket of a client. ``left`` is how many frames it had when the client turned away, ``None`` before."""

    socket: Socket
    gateway: str
    after_seq: int
    frames: list[tuple[int | None, str, Wire]] = field(default_factory=list)
    sent: list[str] = field(default_factory=list)
    left: int | None = None
    code: int | None = None
    granted: bool = False

    @property
    def taken(self) -> list[tuple[int | None, str, Wire]]:
        """What was heard while it was the client's line."""
        return self.frames if self.left is None else self.frames[: self.left]


class Over(Exception):
    """The session is over for this client: closed as asked, or it was told."""


class Client:
    """Lives one call: ``program`` is a list of steps, each a tuple of a verb and its arguments. Run it once."""

    def __init__(self, number: int, fleet: Fleet, draw: random.Random, program: list[tuple[Any, ...]]) -> None:
        self.number = number
        self.fleet = fleet
        self.loop: SimulatedLoop = fleet.loop
        self.process = fleet.loop.process(f"c{number}")
        self.program = program
        self.lines: list[Line] = []
        self.attempts: list[Line] = []
        self.said: dict[str, str] = {}
        self.told_what_arrived = True
        self.samples: dict[str, int] = {}
        self.asked: set[str] = set()
        self.statuses: list[str] = []
        self.errors: list[str] = []
        self.session_id = ""
        self.incarnation = 0
        self.told: str | None = None
        self.closed = False
        self.closed_unheard = False
        self.close_sent = False
        self.over = False
        self.over_at_s = math.inf
        self.seq = 0
        self.doubts = False
        self._refused_since_s: float | None = None
        self.durable_seq = 0
        self._draw = draw
        self._durable = draw.choice(("", DURABLE))
        self._token = ""
        self._news = asyncio.Event()
        self._owed: str | None = None
        self._asked_on: Line | None = None
        self._open_response = False
        self._answered = 0
        self._count = 0
        self._last_progress_s = 0.0

    @property
    def line(self) -> Line:
        """The socket in use, or the last one."""
        return self.lines[-1]

    @property
    def standing(self) -> str:
        """Where the call stands, for a report."""
        kinds = [wire["type"] for line in self.lines for _, _, wire in line.frames[-3:]][-6:]
        code = self.line.code if self.lines else None
        return f"seq {self.seq}, owed {self._owed!r}, {len(self.lines)} lines, code {code}, last {kinds}"

    async def run(self) -> None:
        """Live the whole call."""
        with suppress(Over):
            await self._open()
            for step in self.program:
                await self._do(*step)
            await self._close()
        self.over, self.over_at_s = True, self.loop.time()

    # -- steps ---------------------------------------------------------------------------------------------------------

    async def _do(self, verb: str, *args: Any) -> None:
        match verb:
            case "sound":
                self._sound(*args)
            case "ask":
                await self._ask(*args)
            case "say":
                await self._speak(*args)
            case "pause":
                await self._wait_for(lambda: False, args[0])
            case "ack":
                self._say(type="session.event_ack", server_event_seq=self.seq)
            case "beat":
                self._say(type="session.heartbeat")
            case "stop":
                self._say(type="response.cancel")
            case "hop":
                self._leave(args[0])
                await self._come_back()

    def _sound(self, ms: int) -> None:
        count = RATE_HZ * ms // 1000
        event_id = self._say(
            type="input_audio_buffer.append",
            audio=b64encode(bytes(2 * count)).decode(),
            is_speech=False,
            sample_rate_hz=RATE_HZ,
        )
        self.samples[event_id] = count

    async def _speak(self, ms: int) -> None:
        """Say something loud in two pieces and end the turn: the echo comes back as sound."""
        for _ in range(2):
            count = RATE_HZ * ms // 1000
            event_id = self._say(
                type="input_audio_buffer.append",
                audio=b64encode(b"\x00\x10\x00\xf0" * (count // 2)).decode(),
                is_speech=True,
                sample_rate_hz=RATE_HZ,
            )
            self.samples[event_id] = count // 2 * 2
            await self._wait_for(lambda: False, 0.02)
        self._say(type="input_audio_buffer.commit")
        answered = self._answered
        await self._wait_for(lambda: self._answered > answered, 1.5)

    async def _ask(self, words: int) -> None:
        text = " ".join(self._draw.choice(WORDS) for _ in range(words))
        self.asked.add(text)
        self._owed, self._open_response = text, False
        self._ask_for(text)
        await self._wait_for(lambda: self._owed is None)

    def _ask_for(self, text: str) -> None:
        self._asked_on = self.line
        part = {"type": "input_text", "text": text}
        self._say(type="conversation.item.create", item={"type": "message", "role": "user", "content": [part]})
        self._say(type="response.create")

    async def _close(self) -> None:
        while True:
            self.close_sent = True
            line = self.line
            self._say(type="session.close")
            await self._wait_for(lambda line=line: self.line is not line)

    # -- saying --------------------------------------------------------------------------------------------------------

    def _say(self, **event: Any) -> str:
        self._count += 1
        event_id = f"c{self.number}-{self._count}"
        text = _encode({**event, "event_id": event_id}).decode()
        if event["type"] not in UNKEPT:
            self.said[event_id] = text
            self.line.sent.append(event_id)
        self.line.socket.say(text)
        return event_id

    def _say_what_is_missing(self, resumed: Wire) -> None:
        """Say again what did not arrive over the earlier sockets, and nothing else, where the service can tell."""
        if "last_client_event_id" in resumed:
            ids = list(self.said)
            last = resumed["last_client_event_id"]
            for event_id in ids[ids.index(last) + 1 :] if last in self.said else ids:
                self.line.sent.append(event_id)
                self.line.socket.say(self.said[event_id])
            return
        self.told_what_arrived = False
        if self._owed is not None and not self._open_response:
            # Whether the question arrived is not known: one that is asked twice is answered twice.
            self.loop.create_task(self._ask_again(self._owed, self._answered))

    # -- hearing -------------------------------------------------------------------------------------------------------

    async def _wait_for(self, condition: Any, limit_s: float | None = None) -> None:
        """Return when ``condition`` holds or the time is over, resuming meanwhile as needed. Raises: Over."""
        until_s = None if limit_s is None else self.loop.time() + limit_s
        self._last_progress_s = self.loop.time()
        while True:
            if self.closed or self.told is not None:
                raise Over
            if condition():
                return
            if self.line.code is not None:
                await self._come_back()
                continue
            wait_s = self._last_progress_s + PATIENCE_S - self.loop.time()
            if until_s is not None:
                if until_s <= self.loop.time():
                    return
                wait_s = min(wait_s, until_s - self.loop.time())
            elif wait_s <= 0:
                self._leave("vanish")
                await self._come_back()
                continue
            await self._await_news(wait_s)

    async def _await_news(self, limit_s: float) -> None:
        self._news.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(max(limit_s, 0.001)):
                await self._news.wait()

    async def _listen(self, line: Line) -> None:
        try:
            while True:
                text = await line.socket.hear()
                wire = _decode(text)
                seq = wire.get("server_event_seq")
                line.frames.append((seq, text, wire))
                if line.left is None:
                    self._take(line, seq, wire)
                self.fleet.node.trace("heard", self.number, text)
                self._news.set()
        except Closed as end:
            line.code = end.code
            self._news.set()

    def _take(self, line: Line, seq: int | None, wire: Wire) -> None:
        self._last_progress_s = self.loop.time()
        if seq is not None:
            self.seq = max(self.seq, seq)
        match wire["type"]:
            case "session.created" | "session.resumed":
                line.granted = True
                self._token, self.incarnation = wire["resume_token"], wire["incarnation"]
                self.doubts, self._refused_since_s = False, None
            case "response.created":
                self._open_response = True
            case "response.done":
                self.statuses.append(wire["response"]["status"])
            case "rate_limits.updated":
                self._owed, self._open_response = None, False
                self._answered += 1
            case "session.durable":
                self.durable_seq = max(self.durable_seq, wire["durable_seq"])
            case "session.closed":
                self.closed = True
            case "session.expired" | "session.resync_required":
                self.told = f"{wire['type']}:{wire.get('reason', '')}"
            case "error":
                self.errors.append(code_of(wire))
                if self.errors[-1] == "worker_lost" and not self._open_response:
                    self._owed = None

    # -- coming and going ----------------------------------------------------------------------------------------------

    async def _connect(self, query: str, after_seq: int) -> Line | None:
        """A new line to some gateway, ``None`` when nobody listens there."""
        gateway: GatewayProcess = self._draw.choice(self.fleet.gateways[-3:])
        await asyncio.sleep(self._draw.uniform(0.001, 0.02))
        try:
            socket = gateway.accept(self.process, query + self._durable)
        except OSError:
            return None
        line = Line(socket, gateway.name, after_seq)
        self.loop.create_task(self._listen(line))
        return line

    async def _open(self) -> None:
        while True:
            line = await self._connect(OPEN_QUERY, 0)
            if line is not None:
                self.lines, self.said = [line], {}
                self._say(type="session.update", session={"model": MODEL})
                outcome = await self._answer(line, 14.0)
                if outcome == "session.created":
                    self.session_id = next(w["session"]["id"] for _, _, w in line.frames if "session" in w)
                    return
                self.attempts.append(line)
                self.told = None
                if line.code is None:
                    line.socket.cut()
                if outcome not in TRY_AGAIN:
                    self.told = f"not opened: {outcome}"
                    raise Over
            await asyncio.sleep(self._draw.uniform(0.1, 0.5))

    async def _answer(self, line: Line, limit_s: float) -> str:
        """How a line begins: the type of its welcome, or the code of what was said instead."""
        until_s = self.loop.time() + limit_s
        while True:
            if line.granted:
                return str(next(w["type"] for _, _, w in line.frames if w["type"] in WELCOMES))
            for _, _, wire in line.frames:
                if wire["type"] in _REFUSALS:
                    return code_of(wire)
            if line.code is not None:
                return "connection"
            if self.loop.time() >= until_s:
                return "patience"
            await self._await_news(until_s - self.loop.time())

    def _leave(self, how: str) -> None:
        """Turn away from the line: by a close, a cut, without a word, or keep it open and only listen."""
        line = self.line
        line.left = len(line.frames)
        if line.code is None:
            match how:
                case "close":
                    line.socket.hang_up()
                case "cut":
                    line.socket.cut()
                case "vanish":
                    line.socket.vanish()

    async def _come_back(self) -> None:
        """Resume on some gateway, as often as it takes. Raises: Over when the session is."""
        if self.line.left is None:
            self._leave("keep")
        while True:
            line = await self._connect(RESUME_QUERY, self.seq)
            if line is not None:
                if await self._resume(line):
                    return
                if self.told is not None:
                    raise Over
            await asyncio.sleep(self._draw.uniform(0.1, 0.6))

    async def _resume(self, line: Line) -> bool:
        self.lines.append(line)
        self._say(
            type="session.resume",
            session_id=self.session_id,
            incarnation=self.incarnation,
            resume_token=self._token,
            last_received_server_event_seq=self.seq,
        )
        outcome = await self._answer(line, ANSWER_S)
        if outcome == "session.resumed":
            self._last_progress_s = self.loop.time()
            self._say_what_is_missing(next(w for _, _, w in line.frames if w["type"] == outcome))
            return True
        self._leave("cut")
        if not any(seq is not None for seq, _, _ in line.frames):
            self.attempts.append(self.lines.pop())
        if outcome in COME_BACK or outcome in ("connection", "patience"):
            self.doubts = True
        elif outcome == "invalid_resume_token" and self.doubts and self._may_be_valid_yet():
            self.told = None
        elif outcome == "session_resume_expired" and self.close_sent:
            # It asked for that, and cannot know whether this is why: the store knows.
            self.closed = self.closed_unheard = True
            raise Over
        else:
            self.told = self.told or outcome
        return False

    def _may_be_valid_yet(self) -> bool:
        """A token whose successor was given out but never arrived is good once more when nothing is attached."""
        if self._refused_since_s is None:
            self._refused_since_s = self.loop.time()
        return self.loop.time() - self._refused_since_s < REFUSED_S

    async def _ask_again(self, text: str, answered: int) -> None:
        await asyncio.sleep(1.5)
        if (self._owed, self._answered) == (text, answered) and not self._open_response and self.line.code is None:
            self._ask_for(text)


UNKEPT = ("session.resume", "session.event_ack")
"""What no session keeps: the gateway's own business."""
WELCOMES = ("session.created", "session.resumed")
_REFUSALS = ("error", "session.expired", "session.resync_required", "session.replaced")
