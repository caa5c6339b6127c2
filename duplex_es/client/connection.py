"""Keeps one session connected: the handshake, the reading task, and the resume on the next URL."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from .config import SessionConfig
from .errors import DuplexConnectionError, DuplexSessionClosedError
from .events import DuplexEvent, ErrorEvent, SessionCreated, SessionResumed, view
from .machine import ClientMachine, Phase, ResumeVerdict, acknowledgement
from .reconnect import ReconnectPolicy
from .subscriptions import Subscriptions
from .transport import BROKEN, Connect, Transport


class Connection:
    """The socket of a session, replaced behind the scenes when it breaks.

    Every new event reaches ``subscriptions`` once, in order, and is then acknowledged to the server.
    """

    def __init__(
        self,
        urls: Sequence[str],
        *,
        model: str,
        config: SessionConfig,
        session_id: str | None,
        reconnect: ReconnectPolicy | None,
        handshake_timeout_s: float,
        connect: Connect,
    ) -> None:
        self.machine = ClientMachine(model=model, config=config, session_id=session_id)
        self.subscriptions = Subscriptions()
        self._urls = list(urls)
        self._at = 0
        self._reconnect = reconnect
        self._handshake_timeout_s = handshake_timeout_s
        self._connect = connect
        self._transport: Transport | None = None
        self._reader: asyncio.Task[None] | None = None
        # Set while commands can be sent, and for good once the session is over, so that nobody waits for ever.
        self._settled = asyncio.Event()

    @property
    def url(self) -> str:
        """The URL in use."""
        return self._urls[self._at]

    async def open(self) -> None:
        """Open the session on the first URL that answers.

        Raises: DuplexProtocolError when the server refuses it, DuplexConnectionError when no URL answers in time.
        """
        failure: BaseException | None = None
        for at in range(len(self._urls)):
            self._at = at
            try:
                async with asyncio.timeout(self._handshake_timeout_s):
                    transport = await self._connect(self.url)
            except BROKEN as error:
                failure = error
                continue
            try:
                async with asyncio.timeout(self._handshake_timeout_s):
                    created = await self._shake_hands(transport)
            except BROKEN as error:
                await _close_quietly(transport)
                raise DuplexConnectionError(f"{self.url} did not open the session: {_words(error)}") from error
            except BaseException:
                await _close_quietly(transport)
                raise
            self._transport = transport
            await self._hand_on(created)
            self._settled.set()
            self._reader = asyncio.create_task(self._read())
            return
        raise DuplexConnectionError(f"no gateway answers at {', '.join(self._urls)}: {_words(failure)}") from failure

    async def send(self, command: Mapping[str, Any]) -> None:
        """Send one command, after a resume if one is under way.

        Raises: DuplexConnectionError when the connection broke under it, DuplexSessionClosedError when it is all over.
        """
        await self._settled.wait()
        if self.machine.phase is Phase.ENDED or self._transport is None:
            raise DuplexSessionClosedError(self.machine.end_reason or "not open")
        transport = self._transport
        try:
            await transport.send(msgspec.json.encode(command).decode())
        except BROKEN as error:
            if transport is self._transport:
                # Further commands wait until the reader, which sees the same break, has dealt with it.
                self._settled.clear()
                await _close_quietly(transport)
            raise DuplexConnectionError(_words(error)) from error

    async def shut(self) -> None:
        """Close the socket and stop reading. Consumers that are still there see the end. Idempotent."""
        if self._reader is not None:
            self._reader.cancel()
            with suppress(asyncio.CancelledError):
                await self._reader
        if self._transport is not None:
            await _close_quietly(self._transport)
        self.machine.give_up()
        self._finish()

    # -- the handshake ---------------------------------------------------------------------------------------------

    async def _shake_hands(self, transport: Transport) -> DuplexEvent:
        await transport.send(msgspec.json.encode(self.machine.opening_command()).decode())
        while True:
            event = self.machine.receive(await transport.recv())
            if isinstance(event, ErrorEvent):
                raise event.to_exception()
            if isinstance(event, SessionCreated):
                return event

    # -- the reading task ------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        try:
            while self._transport is not None and self.machine.phase is not Phase.ENDED:
                try:
                    message = await self._transport.recv()
                except BROKEN:
                    self._settled.clear()
                    if not self.machine.connection_lost() or not await self._resume():
                        break
                    continue
                if event := self.machine.receive(message):
                    await self._hand_on(event)
        finally:
            self.machine.give_up()
            self._finish()

    async def _hand_on(self, event: DuplexEvent) -> None:
        self.subscriptions.put(event)
        owed = acknowledgement(event)
        if owed is not None and self._transport is not None:
            with suppress(*BROKEN):
                await self._transport.send(msgspec.json.encode(owed).decode())

    def _finish(self) -> None:
        reason = self.machine.end_reason or "closed"
        self.subscriptions.end(None if self.machine.ended_as_asked else reason)
        self._settled.set()

    # -- the resume ------------------------------------------------------------------------------------------------

    async def _resume(self) -> bool:
        """Bring the session back over a new socket; ``False`` when it cannot be brought back."""
        for attempt in range(self._reconnect.max_attempts if self._reconnect else 0):
            assert self._reconnect is not None
            await asyncio.sleep(self._reconnect.delay_s(attempt))
            self._at = (self._at + 1) % len(self._urls)
            verdict, early = await self._try_resume()
            if verdict is ResumeVerdict.GIVE_UP:
                break
            if verdict is ResumeVerdict.RESUMED:
                self.subscriptions.put(view({"type": "connection.resumed", "attempt": attempt + 1}))
                for event in early:
                    await self._hand_on(event)
                self._settled.set()
                return True
        return False

    async def _try_resume(self) -> tuple[ResumeVerdict, list[DuplexEvent]]:
        """One try on the current URL: the verdict, and what is to be handed on if it succeeded, activation first."""
        transport: Transport | None = None
        early: list[DuplexEvent] = []
        try:
            async with asyncio.timeout(self._handshake_timeout_s):
                transport = await self._connect(self.url)
                await transport.send(msgspec.json.encode(self.machine.resume_command()).decode())
                while True:
                    event = self.machine.receive(await transport.recv())
                    if event is None:
                        continue
                    early.append(event)
                    verdict = self.machine.settle_resume(event)
                    if verdict is not ResumeVerdict.PENDING:
                        break
        except BROKEN:
            verdict = ResumeVerdict.TRY_AGAIN
        if verdict is ResumeVerdict.RESUMED:
            self._transport = transport
            return verdict, sorted(early, key=lambda event: not isinstance(event, SessionResumed))
        if transport is not None:
            await _close_quietly(transport)
        return verdict, early


async def _close_quietly(transport: Transport) -> None:
    with suppress(*BROKEN):
        await transport.close()


def _words(error: BaseException | None) -> str:
    return str(error) or type(error).__name__
