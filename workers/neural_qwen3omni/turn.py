"""One turn as far as it has come, and what of it must be remembered to go on elsewhere."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .sampling import Sampling
from .wave import Heard
from .words import Written

_COUNTS = struct.Struct("<HH")


@dataclass(frozen=True, slots=True)
class Wish:
    """How a turn is answered: how its words are drawn, how many at most, whether aloud and by which voice."""

    seed: int
    sampling: Sampling
    most_words: int
    aloud: bool = True
    speaker: int = 0


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn that is being answered. Never changed: each step makes the next one, so that a failed step undoes itself.

    ``chances`` are those of the next word while ``is_writing``; ``frame`` is the vector of the last frame of ``codes``
    while ``is_speaking``. ``sounded`` frames have become sound, ``told`` characters have been told.
    """

    wish: Wish
    prompt_tokens: int
    written: Written = field(default_factory=Written)
    chances: Any = None
    is_writing: bool = True
    is_speaking: bool = False
    was_cut: bool = False
    codes: tuple[tuple[int, ...], ...] = ()
    frame: Any = None
    heard: Heard = field(default_factory=Heard)
    sounded: int = 0
    told: int = 0
    owed: bytes = b""

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come."""
        return not (self.is_writing or self.is_speaking)


def pack_memory(ids: Sequence[int], frames: Sequence[Sequence[int]]) -> bytes:
    """What one step drew: ids of words, and frames of codes."""
    codes = [code for frame in frames for code in frame]
    counts = _COUNTS.pack(len(ids), len(frames))
    return counts + struct.pack(f"<{len(ids)}I", *ids) + struct.pack(f"<{len(codes)}H", *codes)


def unpack_memory(memory: bytes, groups: int) -> tuple[list[int], list[tuple[int, ...]]]:
    """All ids and frames of what ``pack_memory`` made, one after another. Raises: ValueError for anything else."""
    ids: list[int] = []
    frames: list[tuple[int, ...]] = []
    at = 0
    try:
        while at < len(memory):
            words, count = _COUNTS.unpack_from(memory, at)
            at += _COUNTS.size
            ids += struct.unpack_from(f"<{words}I", memory, at)
            at += 4 * words
            frames += struct.iter_unpack(f"<{groups}H", memory[at : at + 2 * groups * count])
            at += 2 * groups * count
    except struct.error as error:
        raise ValueError(f"no memory of a turn: {error}") from error
    return ids, frames


def told_of(asked: Mapping[str, Any]) -> tuple[int, int]:
    """How many characters and bytes of sound its caller has of a turn that goes on."""
    characters, sound = asked.get("told", (0, 0))
    return int(characters), int(sound)
