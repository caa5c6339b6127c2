"""The process that owns memory for engines, and does nothing else: it is there when they are not.

Started by the worker with one end of a socket. Over that come the lines of engines, as descriptors; when it closes, as
it does however the worker ends, this process ends and its memory with it, as soon as no engine works in that any more.
"""

from __future__ import annotations

import json
import math
import selectors
import socket
import sys
import time
from dataclasses import dataclass
from typing import Any

from .holding import PACKET_BYTES
from .holding_cuda import DeviceFailed
from .holding_memory import Memory, NoMemory, Places

LINGER_S = 10.0
"""Engines see that their worker is gone within a second; one that is loading does so later."""


@dataclass(slots=True)
class _Held:
    memory: Memory
    place: str
    mark: str | None = None


class Holder:
    """Serves whoever is handed over through ``control``, until that is closed. Run it once.

    Those who have a line then may keep it for ``linger_s``: memory that is still worked in does not go.
    """

    def __init__(self, control: socket.socket, places: Places | None = None, *, linger_s: float = LINGER_S) -> None:
        self._control = control
        self._linger_s = linger_s
        self._lines = 0
        self._places = places or Places()
        self._blocks: dict[str, _Held] = {}
        self._selector = selectors.DefaultSelector()
        self._selector.register(control, selectors.EVENT_READ)

    def run(self) -> None:
        """Answer until the worker is gone, and engines too."""
        ends_s = math.inf
        while time.monotonic() < ends_s and (self._lines or ends_s == math.inf):
            for key, _ in self._selector.select(None if ends_s == math.inf else ends_s - time.monotonic()):
                if key.fileobj is not self._control:
                    assert isinstance(key.fileobj, socket.socket)
                    self._answer(key.fileobj)
                elif not self._take_line():
                    self._selector.unregister(self._control)
                    ends_s = time.monotonic() + self._linger_s

    def _take_line(self) -> bool:
        """A new engine's line; false once there is nobody left to hand one over."""
        try:
            data, descriptors, _, _ = socket.recv_fds(self._control, 1, 1)
        except ConnectionError:
            return False
        for descriptor in descriptors:
            line = socket.socket(fileno=descriptor)
            line.setblocking(True)
            self._lines += 1
            self._selector.register(line, selectors.EVENT_READ)
        return bool(data)

    def _answer(self, line: socket.socket) -> None:
        try:
            data = line.recv(PACKET_BYTES)
            if data:
                answer, descriptors = self._answer_to(json.loads(data))
                socket.send_fds(line, [json.dumps(answer).encode()], descriptors)
                return
        except ConnectionError:
            pass  # whoever asked is gone, and is let go below
        self._selector.unregister(line)
        self._lines -= 1
        line.close()

    def _answer_to(self, question: dict[str, Any]) -> tuple[dict[str, Any] | None, list[int]]:
        try:
            return self._carried_out(question)
        except (NoMemory, DeviceFailed, ValueError) as error:
            return {"error": str(error)}, []

    def _carried_out(self, question: dict[str, Any]) -> tuple[dict[str, Any] | None, list[int]]:
        name = question["name"]
        if question["do"] == "make":
            self._make(name, question["size"], question["place"])
        held = self._blocks.get(name)
        if held is None:
            return None, []
        if question["do"] == "mark":
            held.mark = question["mark"]
            return {}, []
        ticket, descriptors = held.memory.ticket()
        return {"size": held.memory.size, "place": held.place, "mark": held.mark, "ticket": ticket}, descriptors

    def _make(self, name: str, size: int, place: str) -> None:
        if old := self._blocks.pop(name, None):
            old.memory.free()
        self._blocks[name] = _Held(self._places.make(place, size, name), place)


def main(arguments: list[str]) -> int:
    """Argument: the descriptor of the worker's socket."""
    with socket.socket(fileno=int(arguments[0])) as control:
        Holder(control).run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
