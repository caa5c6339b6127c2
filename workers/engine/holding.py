"""What outlives an engine's process: memory that another process owns, and this side's line to it.

The other process (``holding_process``) knows no model: it has blocks of bytes by name, each with a mark, which is a
text of whoever filled it. One request and one answer at a time, a packet each, as JSON; descriptors travel beside.

Asked (``do``): ``find``, ``make`` with name, size and place, ``mark`` with name and mark. Answered: an object with
size, place, mark and ticket; ``null`` where nothing was found; ``error`` with a text.
"""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass
from typing import Any

from .holding_memory import NoMemory, Places

PACKET_BYTES = 64 * 1024
PATIENCE_S = 60.0
"""Taking and clearing a hundred gigabytes takes its time."""


class HoldingGone(Exception):
    """The process that owns the memory does not answer."""


@dataclass(frozen=True, slots=True)
class Block:
    """``size`` bytes at ``place``. ``view`` is a buffer, or what has ``__cuda_array_interface__``.

    ``mark`` is what was said of its contents last; ``None``: nothing, as when it was made, all zeros.
    """

    name: str
    size: int
    place: str
    view: Any
    mark: str | None


class Holding:
    """One process's line to the memory that outlives it."""

    def __init__(self, line: socket.socket, places: Places | None = None) -> None:
        line.settimeout(PATIENCE_S)
        self._line = line
        self._places = places or Places()

    def find(self, name: str) -> Block | None:
        """The block of that name, or ``None``. Raises: HoldingGone, NoMemory if it cannot be opened here."""
        return self._block(name, {"do": "find", "name": name})

    def make(self, name: str, size: int, place: str) -> Block:
        """A block of zeros. One that had this name is gone: nobody may work in it any more.

        Raises: HoldingGone, NoMemory.
        """
        block = self._block(name, {"do": "make", "name": name, "size": size, "place": place})
        if block is None:
            raise HoldingGone("nothing was answered to make")
        return block

    def mark(self, name: str, mark: str | None) -> None:
        """Say what a block contains from now on. Raises: HoldingGone."""
        self._ask({"do": "mark", "name": name, "mark": mark})

    def close(self) -> None:
        """Hang up; what was opened stays open."""
        self._line.close()

    def _block(self, name: str, question: dict[str, Any]) -> Block | None:
        answer, descriptors = self._ask(question)
        if answer is None:
            return None
        memory = self._places.open(answer["place"], answer["size"], answer["ticket"], descriptors)
        return Block(name, answer["size"], answer["place"], memory.view(), answer["mark"])

    def _ask(self, question: dict[str, Any]) -> tuple[dict[str, Any] | None, list[int]]:
        try:
            self._line.send(json.dumps(question).encode())
            data, descriptors, _, _ = socket.recv_fds(self._line, PACKET_BYTES, 1)
        except OSError as error:
            raise HoldingGone(f"the process that holds memory does not answer: {error}") from error
        if not data:
            raise HoldingGone("the process that holds memory is gone")
        answer = json.loads(data)
        if answer is not None and "error" in answer:
            raise NoMemory(answer["error"])
        return answer, descriptors
