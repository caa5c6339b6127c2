"""Keeps one session connected: the handshake, the reading task, and the resume on the next URL."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from .errors import DuplexClientError, DuplexConnectionError, DuplexProtocolError, DuplexSessionClosedError
from .events import DuplexEvent, ErrorEvent, SessionCreated, SessionResumed, view
from .machine import ClientMachine, Phase, ResumeVerdict, acknowledgement
from .reconnect import ReconnectPolicy
from .subscriptions import Subscriptions
from .transport import Connect, Line, words

HELD_ACKNOWLEDGEMENTS = 64
"""Acknowledgements not sent yet; each covers all before it, so the oldest may go."""


class Connection:
    """The socket of a session, replaced behind the scenes when it breaks.

    Every new event reaches ``subscriptions`` once, in order, and is then acknowledged to the server, unless
    ``auto_acknowledge`` is off. Commands go out one at a time, in the order of the calls.
    """

    def __init__(
        self,
        urls: Sequence[str],
        machine: ClientMachine,
        *,
        reconnect: ReconnectPolicy | None,
        handshake_timeout_s: float,
        connect: Connect,
        auto_acknowledge: bool = True,
    ) -> None:
        self.machine = machine
        self.subscriptions = Subscriptions(keeps_first=machine.is_taken_up)
        self.acknowledged_seq = machine.last_seq
        self._auto_acknowledge = auto_acknowledge
        self._urls = list(urls)
        self._at = 0
        self._reconnect = reconnect
        self._handshake_timeout_s = handshake_timeout_s
        self._connect = connect
        self._line: Line | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._resending: asyncio.Task[None] | None = None
        self._resends = False
        # Set while commands can be sent, and for good once the session is over, so that nobody waits for ever.
        self._settled = asyncio.Event()
        self._turn = asyncio.Lock()
        self._owed: deque[int] = deque(maxlen=HELD_ACKNOWLEDGEMENTS)
        self._owes = asyncio.Event()

    @property
    def url(self) -> str:
        """The URL in use."""
        return self._urls[self._at]

    async def open(self) -> None:
        """Open the session, or take it up, on the first URL that answers.

        Raises: DuplexProtocolError when the server refuses it, DuplexConnectionError when no URL answers in time,
        DuplexSessionClosedError when a session to take up is over.
        """
        failure: DuplexConnectionError | None = None
        for at in range(len(self._urls)):
            self._at = at
            try:
                line = await self._dial()
            except DuplexConnectionError as error:
                failure = error
                continue
            try:
                async with asyncio.timeout(self._handshake_timeout_s):
                    heard = await self._shake_hands(line)
            except (DuplexConnectionError, TimeoutError) as error:
                await line.close()
                raise DuplexConnectionError(f"{self.url} did not open the session: {words(error)}") from error
            except BaseException:
                await line.close()
                raise
            self._line = line
            for event in heard:
                self._hand_on(event)
            self._settled.set()
            self._tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._acknowledge())]
            return
        raise DuplexConnectionError(f"no gateway answers at {', '.join(self._urls)}: {failure}") from failure

    async def send(self, command: Mapping[str, Any], event_id: str | None = None) -> None:
        """Send one command, after a resume if one is under way; waits while the server is behind.

        Under an ``event_id`` it is said again after a resume if it had not arrived. Raises: DuplexSessionClosedError
        when it is all over; DuplexConnectionError when the connection broke under it and nobody can tell whether it
        arrived: without an ``event_id``, or where the server does not say.
        """
        async with self._turn:
            await self._settled.wait()
            line = self._open_line()
            message = msgspec.json.encode(command).decode()
            if event_id is not None:
                self.machine.said(event_id, message, type=str(command.get("type")))
            try:
                await line.send(message)
                return
            except DuplexConnectionError:
                if line is self._line:
                    # Further commands wait until the reader, which sees the same break, has dealt with it.
                    self._settled.clear()
                    await line.close()
                if event_id is None:
                    raise
                await self._settled.wait()
                self._open_line()
                if not self._resends:
                    raise

    def acknowledge(self, seq: int) -> None:
        """Let the server forget every event up to ``seq``. Sent when the connection can take it."""
        self.acknowledged_seq = max(self.acknowledged_seq, seq)
        self._owed.append(seq)
        self._owes.set()

    async def shut(self) -> None:
        """Close the socket and stop reading. Consumers that are still there see the end. Idempotent."""
        for task in (*self._tasks, *([self._resending] if self._resending else [])):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        if self._line is not None:
            await self._line.close()
        self.machine.give_up()
        self._finish()

    def _open_line(self) -> Line:
        if self.machine.phase is Phase.ENDED or self._line is None:
            raise DuplexSessionClosedError(self.machine.end_reason or "not open")
        return self._line

    # -- the handshake ---------------------------------------------------------------------------------------------

    async def _dial(self) -> Line:
        try:
            async with asyncio.timeout(self._handshake_timeout_s):
                return await Line.dial(self._connect, self.url)
        except TimeoutError as error:
            raise DuplexConnectionError(f"no answer within {self._handshake_timeout_s:g} s") from error

    async def _shake_hands(self, line: Line) -> list[DuplexEvent]:
        await line.send(msgspec.json.encode(self.machine.opening_command()).decode())
        if self.machine.is_taken_up:
            return await self._taken_up(line)
        while True:
            event = self.machine.receive(await line.recv())
            if isinstance(event, ErrorEvent):
                raise event.to_exception()
            if isinstance(event, SessionCreated):
                return [event]

    async def _taken_up(self, line: Line) -> list[DuplexEvent]:
        verdict, heard = await self._until_settled(line)
        if verdict is ResumeVerdict.RESUMED:
            return heard
        raise _refusal(heard[-1])

    # -- the reading task ------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        try:
            while self._line is not None and self.machine.phase is not Phase.ENDED:
                try:
                    message = await self._line.recv()
                except DuplexConnectionError:
                    if not await self._mend():
                        break
                    continue
                if event := self.machine.receive(message):
                    self._hand_on(event)
        finally:
            self.machine.give_up()
            self._finish()

    def _hand_on(self, event: DuplexEvent) -> None:
        self.subscriptions.put(event)
        if self._auto_acknowledge and event.server_event_seq is not None:
            self.acknowledge(event.server_event_seq)

    async def _acknowledge(self) -> None:
        # A task of its own: the reader must never wait until the server takes something.
        while True:
            await self._owes.wait()
            self._owes.clear()
            while self._owed and self._line is not None:
                owed = acknowledgement(self._owed.popleft())
                with suppress(DuplexConnectionError):
                    await self._line.send(msgspec.json.encode(owed).decode())

    def _finish(self) -> None:
        reason = self.machine.end_reason or "closed"
        self.subscriptions.end(None if self.machine.ended_as_asked else reason)
        self._settled.set()

    # -- the resume ------------------------------------------------------------------------------------------------

    async def _mend(self) -> bool:
        """Bring the session back over a new socket; ``False`` when it cannot be brought back."""
        if self._resending is not None:
            self._resending.cancel()
        self._settled.clear()
        if not self.machine.connection_lost():
            return False
        early: list[DuplexEvent] = []
        clock = asyncio.get_running_loop().time
        welcome_s: dict[str, float] = {}
        for attempt in range(self._reconnect.max_attempts if self._reconnect else 0):
            assert self._reconnect is not None
            self._at = (self._at + 1) % len(self._urls)
            # A drawn wait on top of the told one: the others were told the same.
            told_s = max(0.0, welcome_s.get(self.url, 0.0) - clock())
            await asyncio.sleep(told_s + self._reconnect.delay_s(attempt))
            verdict, heard, told_ms = await self._try_resume()
            welcome_s[self.url] = clock() + told_ms / 1000
            if verdict is ResumeVerdict.GIVE_UP:
                break
            if verdict is ResumeVerdict.RESUMED:
                self._go_on(attempt + 1, [heard[0], *early, *heard[1:]])
                return True
            # Counted as received, so the next attempt does not ask for them again.
            early += [event for event in heard if event.server_event_seq is not None]
        return False

    async def _try_resume(self) -> tuple[ResumeVerdict, list[DuplexEvent], float]:
        """One try on the current URL: the verdict, what was heard on it, the activation first if there is one,

        and how many milliseconds the server wants the next try to wait.
        """
        line: Line | None = None
        heard: list[DuplexEvent] = []
        told_ms: float | None = None
        try:
            async with asyncio.timeout(self._handshake_timeout_s):
                line = await self._dial()
                await line.send(msgspec.json.encode(self.machine.resume_command()).decode())
                verdict, heard = await self._until_settled(line, heard)
            if isinstance(heard[-1], ErrorEvent):
                told_ms = heard[-1].retry_after_ms
        except DuplexConnectionError as error:
            verdict, told_ms = ResumeVerdict.TRY_AGAIN, error.retry_after_ms
        except TimeoutError:
            verdict = ResumeVerdict.TRY_AGAIN
        if verdict is ResumeVerdict.RESUMED:
            self._line = line
        elif line is not None:
            await line.close()
        return verdict, heard, told_ms or 0.0

    async def _until_settled(
        self, line: Line, heard: list[DuplexEvent] | None = None
    ) -> tuple[ResumeVerdict, list[DuplexEvent]]:
        """Read until the server has decided about a resume; appends to ``heard`` what comes, the activation first."""
        heard = [] if heard is None else heard
        while True:
            event = self.machine.receive(await line.recv())
            if event is None:
                continue
            verdict = self.machine.settle_resume(event)
            heard.insert(0 if isinstance(event, SessionResumed) else len(heard), event)
            if verdict is not ResumeVerdict.PENDING:
                return verdict, heard

    def _go_on(self, attempt: int, heard: list[DuplexEvent]) -> None:
        """Hand on what a successful resume brought, and say again what had not arrived before."""
        activation = heard[0]
        assert isinstance(activation, SessionResumed)
        missing = self.machine.undelivered(activation)
        self._resends = missing is not None
        news: dict[str, Any] = {"attempt": attempt, "resent": None if missing is None else len(missing)}
        if self.machine.unproven_count:
            news["unproven"] = self.machine.unproven_count
        self.subscriptions.put(view({"type": "connection.resumed", **news}))
        for event in heard:
            self._hand_on(event)
        if missing:
            # Not here: the reader must go on reading, or two full buffers would wait for each other.
            self._resending = asyncio.create_task(self._resend(missing))
        else:
            self._settled.set()

    async def _resend(self, messages: Sequence[str]) -> None:
        line = self._line
        assert line is not None
        try:
            for message in messages:
                await line.send(message)
        except DuplexConnectionError:
            # The reader sees the same break; the resume that follows tells anew what arrived.
            return
        if line is self._line:
            self._settled.set()


def _refusal(event: DuplexEvent) -> DuplexClientError:
    """What to raise for the event that ended an attempt to take a session up."""
    if isinstance(event, ErrorEvent):
        return event.to_exception()
    if event.type == "session.resync_required":
        message = "the events after this ticket are no longer kept"
        return DuplexProtocolError(message, code=event.type, raw=event.raw)
    return DuplexSessionClosedError(event.type)
