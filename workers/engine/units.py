"""What a model offers that works in units of a second: so much sound in, one decision and its speech out.

One session occupies one loaded object, and one unit may take most of its second: whose is next is decided by
``unit_queue``. A factory ``make(options) -> UnitEngine`` is named as for a ``FrameEngine``; that it has ``unit`` tells
the two apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from .contract import EngineFacts, Floats
from .wire import Message


@dataclass(frozen=True, slots=True)
class UnitDone:
    """What one unit gave: int16 ``pcm`` and its words, or that the model ``listens``.

    ``ends``: its turn ends with this unit. ``serial`` is the number the unit was handed in with. ``stages`` is what the
    engine tells of its own networks at work on it, by number and by the names of ``StageMetrics``, if it tells;
    ``work_ms`` how long it took as a whole.
    """

    pcm: bytes
    text: str
    listens: bool
    ends: bool
    serial: int = 0
    stages: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    work_ms: float = 0.0


class UnitEngine(Protocol):
    """A loaded model with a fixed number of slots, each an object of its own. ``facts.frame_ms`` is a unit's length.

    All but ``begin`` and ``interrupt`` is called from one thread, one call at a time, in whatever order of slots.
    """

    facts: EngineFacts

    def load(self) -> None:
        """Load weights and warm up. Raises: with what is missing."""

    def open(self, slot: int, opening: Mapping[str, Any], memory: bytes) -> Iterator[None]:
        """Begin a session in a free ``slot``: exhausting the iterator prepares it, one bounded piece of work at a time.

        ``memory`` is what the plug-in hands to its engine as bytes: here the voice, float32 at the input rate.
        Raises, at once or on the way: EngineRefused, EngineFull.
        """

    def unit(self, slot: int, pcm: Floats, frames: Sequence[bytes], *, forced: bool) -> UnitDone:
        """Take in one unit of an open ``slot``: (samples,) in [-1, 1], the first ``first_ms`` long; ``frames`` are JPEG

        or PNG files. ``forced``: it must listen, and a turn it is in ends. Raises: EngineDead.
        """

    def begin(self, slot: int) -> None:
        """The next unit of ``slot`` is about to be handed in: what was broken off before is over. From any thread."""

    def interrupt(self, slot: int) -> None:
        """Break off the unit that ``slot`` is at, if it is at one; it returns soon. May be called from any thread."""

    def close(self, slot: int) -> None:
        """Free ``slot``. Idempotent."""


def pack_unit(session: str, serial: int, pcm: bytes, frames: Sequence[bytes], forced: bool) -> tuple[Message, bytes]:
    """One unit as a message and the bytes beside it."""
    sizes = [len(pcm), *(len(frame) for frame in frames)]
    message = {"do": "unit", "session": session, "serial": serial, "forced": forced, "sizes": sizes}
    return message, b"".join((pcm, *frames))


def unpack_unit(message: Message, blob: bytes) -> tuple[bytes, list[bytes]]:
    """The sound and the pictures of what ``pack_unit`` made."""
    parts, at = [], 0
    for size in message["sizes"]:
        parts.append(blob[at : at + size])
        at += size
    return parts[0], parts[1:]
