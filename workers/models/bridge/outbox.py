"""What waits for the server, and what it was sent and has not confirmed."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

from msgspec import UNSET, UnsetType

from duplex_es.protocol import AppendAudio, Command, Heartbeat, encode_command

MOST_AUDIO_BYTES = 16 * 1024 * 1024
"""Caller audio beyond this is dropped, the oldest first: a server that takes nothing must not fill the memory."""


class Outbox:
    """Commands in order. One reader."""

    def __init__(self) -> None:
        self._waiting: deque[Command] = deque()
        self._sent: deque[Command] = deque()
        self._audio_bytes = 0
        self._news = asyncio.Event()

    def put(self, *commands: Command) -> int:
        """Add commands; returns how many bytes of audio were dropped for that."""
        self._waiting.extend(commands)
        self._audio_bytes += sum(_sound(command) for command in commands)
        self._news.set()
        return self._drop_surplus()

    async def next(self) -> str:
        """The next command as the wire's text; it counts as sent."""
        while not self._waiting:
            self._news.clear()
            await self._news.wait()
        command = self._waiting.popleft()
        self._audio_bytes -= _sound(command)
        self._sent.append(command)
        return encode_command(command)

    def confirmed(self) -> None:
        """The oldest heartbeat was answered: so everything before it has arrived."""
        while self._sent and not isinstance(self._sent.popleft(), Heartbeat):
            pass

    def resumed(self, last_event_id: str | UnsetType | None) -> None:
        """A new connection: what did not arrive by the old one waits again, before everything else.

        ``last_event_id`` as in ``session.resumed``; where the server does not say it, what was sent counts as arrived.
        """
        if last_event_id is UNSET:
            return
        at = _place(list(self._sent), last_event_id)
        again = [command for command in list(self._sent)[at:] if command.event_id is not UNSET]
        self._sent = deque(list(self._sent)[:at])
        self._waiting.extendleft(reversed(again))
        self._audio_bytes += sum(_sound(command) for command in again)

    def clear(self) -> None:
        """Nothing of it is of use to another session; caller audio that waits is kept."""
        self._sent.clear()
        self._waiting = deque(command for command in self._waiting if isinstance(command, AppendAudio))

    def _drop_surplus(self) -> int:
        dropped = 0
        while self._audio_bytes > MOST_AUDIO_BYTES:
            oldest = next(command for command in self._waiting if isinstance(command, AppendAudio))
            self._waiting.remove(oldest)
            self._audio_bytes -= _sound(oldest)
            dropped += _sound(oldest)
        return dropped


def _place(sent: Sequence[Command], last_event_id: str | None) -> int:
    """How many of ``sent`` arrived: up to the one of this name; none, if none of these is the one."""
    names = [command.event_id for command in sent]
    return len(names) - names[::-1].index(last_event_id) if last_event_id in names else 0


def _sound(command: Command) -> int:
    return len(command.audio) if isinstance(command, AppendAudio) else 0
