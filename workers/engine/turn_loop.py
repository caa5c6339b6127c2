"""The engine's process for models that are asked turn by turn: one thread, one token step of all turns after another.

Between two steps turns join, leave, and are spoken of; a prompt is read in bounded pieces, one between two steps, so
that a long one delays the answers that are being given by no more than a piece.

Asked and told as in ``child``, a turn in the place of a session: ``open`` with session, the turn as opening (its
``session_id`` says whose it is) and sounds and memory beside, ``close`` to cancel, ``stop``. Told ``ready`` when its
prompt was read, ``pieces`` with a row for each turn that a step gave something of, and ``refused`` or ``failed``. When
its last piece was told a turn is over; nobody has to close it.
"""

from __future__ import annotations

import select
import socket
import sys
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from .contract import EngineDead, EngineFull, EngineRefused
from .link import Link
from .turn_queue import BACKLOG_PER_SLOT, TurnQueue
from .turns import TurnEngine, TurnPiece, pack_pieces, unpack_turn
from .wire import Message

LONGEST_WAIT_S = 0.5


@dataclass(slots=True)
class _Joining:
    turn: str
    reading: Iterator[None]


class TurnLoop:
    """Runs ``engine`` for whoever holds the other end of ``link``, until ``stop`` or a closed link. Run it once."""

    def __init__(self, engine: TurnEngine, link: socket.socket) -> None:
        self._engine = engine
        self._link = Link(link)
        self._slots: dict[str, int] = {}
        self._free = list(range(engine.facts.slots - 1, -1, -1))
        self._queue = TurnQueue(backlog=BACKLOG_PER_SLOT * engine.facts.slots)
        self._joining: deque[_Joining] = deque()
        self._answering: list[str] = []
        self._step_s = engine.facts.frame_ms / 1000
        self._is_stopping = False

    def run(self) -> None:
        """Serve until told to stop. Raises: EngineDead."""
        self._link.tell({"is": "loaded", "facts": self._engine.facts.plain()})
        while not (self._is_stopping or self._link.is_broken):
            self._exchange(wait=not (self._joining or self._answering))
            self._seat()
            self._read()
            self._step()

    # -- messages --------------------------------------------------------------------------------------------------

    def _exchange(self, *, wait: bool) -> None:
        """Read and write what can be; with ``wait``, once there is something."""
        writing = [self._link] if self._link.has_more else []
        readable, writable, _ = select.select([self._link], writing, [], LONGEST_WAIT_S if wait else 0.0)
        if writable:
            self._link.flush()
        if readable:
            for message, blob in self._link.received():
                self._do(message, blob)

    def _do(self, message: Message, blob: bytes) -> None:
        turn = str(message.get("session", ""))
        match message["do"]:
            case "open":
                self._close(turn)
                asked = message["opening"]
                if not self._queue.put(str(asked.get("session_id", turn)), turn, (asked, blob)):
                    self._refuse(turn, EngineFull("too many turns are waiting already"))
            case "close":
                self._close(turn)
            case "stop":
                self._is_stopping = True

    def _refuse(self, turn: str, refusal: EngineRefused | EngineFull | MemoryError) -> None:
        code, param = "resource_exhausted", None
        if isinstance(refusal, EngineRefused):
            code, param = refusal.code, refusal.param
        self._close(turn)
        self._link.tell({"is": "refused", "session": turn, "code": code, "message": str(refusal), "param": param})

    def _fail(self, turn: str, error: Exception) -> None:
        message = f"{type(error).__name__}: {error}"
        print(f"turn={turn} cannot go on: {message}", file=sys.stderr)
        self._close(turn)
        self._link.tell({"is": "failed", "session": turn, "message": message})

    def _close(self, turn: str) -> None:
        """Forget ``turn`` and free its slot. Idempotent."""
        self._queue.remove(turn)
        slot = self._slots.pop(turn, None)
        if slot is None:
            return
        self._joining = deque(one for one in self._joining if one.turn != turn)
        self._answering = [name for name in self._answering if name != turn]
        self._engine.drop(slot)
        # The lowest slots are taken first, so that those in use lie together.
        self._free.append(slot)
        self._free.sort(reverse=True)

    # -- the work --------------------------------------------------------------------------------------------------

    def _seat(self) -> None:
        """Give free slots to turns that wait."""
        while self._free and (found := self._queue.take()) is not None:
            turn, (asked, blob) = found
            self._slots[turn] = self._free.pop()
            self._joining.append(_Joining(turn, self._begin(self._slots[turn], asked, blob)))

    def _begin(self, slot: int, asked: Message, blob: bytes) -> Iterator[None]:
        """The reading of a prompt, all of it work of the turn."""
        sounds, memory = unpack_turn(asked, blob)
        yield from self._engine.ask(slot, asked, sounds, memory)

    def _read(self) -> None:
        """A piece of one prompt. They take turns: a short one is not kept waiting by a long one before it."""
        if not self._joining:
            return
        joining = self._joining.popleft()
        try:
            next(joining.reading)
            self._joining.append(joining)
        except StopIteration:
            self._answering.append(joining.turn)
            self._link.tell({"is": "ready", "session": joining.turn})
        except EngineDead:
            raise
        except (EngineRefused, EngineFull, MemoryError) as refusal:
            self._refuse(joining.turn, refusal)
        except Exception as error:
            self._fail(joining.turn, error)

    def _step(self) -> None:
        """One token of every turn that is being answered."""
        if not self._answering:
            return
        began_s = time.monotonic()
        pieces = self._stepped(list(self._answering))
        took_s = time.monotonic() - began_s
        for turn, piece in pieces:
            if piece.ends:
                self._close(turn)
        said = [(turn, piece) for turn, piece in pieces if piece != TurnPiece()]
        rows, blob = pack_pieces(said)
        timing = {"work_ms": took_s * 1000, "late": took_s > self._step_s, "turns": len(pieces)}
        self._link.tell({"is": "pieces", "rows": rows, **timing}, blob)

    def _stepped(self, turns: list[str]) -> list[tuple[str, TurnPiece]]:
        """The results of a step. Turns that cannot be stepped together are stepped alone: the sick one ends alone."""
        try:
            return list(zip(turns, self._engine.step([self._slots[turn] for turn in turns]), strict=True))
        except EngineDead:
            raise
        except Exception as error:
            if len(turns) > 1:
                return [done for turn in turns for done in self._stepped([turn])]
            if isinstance(error, EngineFull | MemoryError):
                self._refuse(turns[0], error)
            else:
                self._fail(turns[0], error)
            return []
