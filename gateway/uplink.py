"""Socket → log: reads frames, decodes them, appends them. It forgets what it appended.

Reading goes on while an append is under way, and everything read meanwhile shares the next one: a lone frame waits
for nothing, a burst costs one call. What is held in between is bounded, and beyond it the socket is not read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from duplex_es.log.api import Record
from duplex_es.log.errors import SessionUnknown
from duplex_es.protocol import (
    AcknowledgeEvents,
    Command,
    ProtocolError,
    RefuseCommand,
    ResumeSession,
    Said,
)
from duplex_es.protocol.dialects import STOCK, rewrite_command

from . import endings
from .acknowledging import Acknowledger
from .endings import Ending
from .peer import Gone, Peer
from .reading import read_event
from .writer import InputWriter, record_of

HELD_BYTES = 1024 * 1024
"""Records read but not yet appended, at which reading pauses; a single larger one is still taken."""
LAST_WORDS_S = 5.0
"""How long after the session is over in the log the downlink may take to say so."""


class Uplink:
    """One socket's way up. ``first_frame`` is awaited once, when the peer has proved that it hears and speaks.

    ``held_bytes`` of records were read and are not yet handed to the log.
    """

    def __init__(
        self,
        peer: Peer,
        writer: InputWriter,
        acknowledger: Acknowledger,
        *,
        first_frame: Callable[[], Awaitable[None]],
        max_event_bytes: int,
    ) -> None:
        self._peer = peer
        self._writer = writer
        self._acknowledger = acknowledger
        self._first_frame: Callable[[], Awaitable[None]] | None = first_frame
        self._max_event_bytes = max_event_bytes
        self._held: list[Record] = []
        self.held_bytes = 0
        self._something = asyncio.Event()
        self._room = asyncio.Event()

    async def run(self) -> Ending:
        """Carry frames until the socket ends, and append all that was read by then.

        Raises: LogError as ``append_input``, except that a session that is over is left to the downlink to report.
        """
        reader = asyncio.create_task(self._read())
        reader.add_done_callback(lambda _: self._something.set())
        try:
            while True:
                await self._something.wait()
                self._something.clear()
                await self.flush()
                if reader.done() and not self._held:
                    return reader.result()
        except SessionUnknown:
            await asyncio.sleep(LAST_WORDS_S)
            raise
        finally:
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)

    async def flush(self) -> None:
        """Append what was read and is still held. Raises: LogError as ``append_input``."""
        if batch := self._take():
            await self._writer.append(batch)

    def _take(self) -> list[Record]:
        batch, self._held, self.held_bytes = self._held, [], 0
        self._room.set()
        return batch

    async def _read(self) -> Ending:
        while True:
            heard = await self._peer.receive()
            if self._first_frame is not None and not (isinstance(heard, Gone) and not heard.said_goodbye):
                await self._first_frame()
                self._first_frame = None
            if isinstance(heard, Gone):
                return endings.lost(heard)
            if isinstance(heard, bytes):
                return endings.binary_frame()
            if (said := self._heard(heard)) is not None:
                self._hold(record_of(said))
            while self.held_bytes > HELD_BYTES:
                self._room.clear()
                await self._room.wait()

    def _hold(self, record: Record) -> None:
        self._held.append(record)
        self.held_bytes += len(record.body) + len(record.audio or b"")
        self._something.set()

    def _heard(self, text: str) -> Said | None:
        """What goes into the log for one frame; ``None`` when nothing does."""
        try:
            command: Command = read_event(text, self._max_event_bytes, self._peer.dialect)
        except ProtocolError as error:
            return RefuseCommand.of(error)
        self._peer.voice.settle(command)
        if isinstance(command, ResumeSession):
            return _late_resume(command)
        if isinstance(command, AcknowledgeEvents) and self._peer.dialect in STOCK:
            return _nothing_to_acknowledge(command)
        if isinstance(command, AcknowledgeEvents) and self._acknowledger.covers(command.server_event_seq):
            self._acknowledger.note(command.server_event_seq)
            return None
        return rewrite_command(command, self._peer.dialect)


def _late_resume(command: ResumeSession) -> RefuseCommand:
    """The refusal in its place: the command itself carries a secret and may not be written down."""
    error = ProtocolError(
        "unsupported_session_resume",
        "session.resume must be the first event on a socket; this one holds a session.",
        "type",
        command.event_id if isinstance(command.event_id, str) else None,
    )
    return RefuseCommand.of(error)


def _nothing_to_acknowledge(command: AcknowledgeEvents) -> RefuseCommand:
    """The refusal of a number this client cannot have heard: its events carry none."""
    error = ProtocolError(
        "unknown_event",
        "session.event_ack is for sockets that ask for the duplex API; events carry no server_event_seq here.",
        "type",
        command.event_id if isinstance(command.event_id, str) else None,
    )
    return RefuseCommand.of(error)
