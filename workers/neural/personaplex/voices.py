"""The voices that the model can be opened with: embeddings of somebody speaking, and the ids around their end."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from ..moshi.shape import MoshiShape

DEFAULT_VOICE = "NATF2.pt"
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*\.pt")


class VoiceUnknown(ValueError):
    """There is no such voice, or its file is not one."""


@dataclass(frozen=True, slots=True)
class Voice:
    """``rows`` (frames, width) go in as they are; ``around`` (streams, columns) holds frame p in column p % columns."""

    rows: Tensor
    around: Tensor


class Voices:
    """The voice files of one folder, read when they are first asked for."""

    def __init__(self, folder: Path, shape: MoshiShape) -> None:
        self._folder, self._shape = folder, shape
        self._read: dict[str, Voice] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """What there is, sorted."""
        return tuple(sorted(path.name for path in self._folder.glob("*.pt")))

    @property
    def default(self) -> str:
        """The voice of a session that names none."""
        return DEFAULT_VOICE if DEFAULT_VOICE in self.names or not self.names else self.names[0]

    def get(self, name: str) -> Voice:
        """The voice of that file name. Raises: VoiceUnknown."""
        if name not in self._read:
            if not _PLAIN_NAME.fullmatch(name) or name not in self.names:
                raise VoiceUnknown(f"voice {name!r:.60} is not one of {', '.join(self.names) or 'none'}")
            self._read[name] = _voice(self._folder / name, self._shape)
        return self._read[name]


def _voice(path: Path, shape: MoshiShape) -> Voice:
    # Tensors only: a file that wants to run code is refused.
    held = torch.load(path, map_location="cpu", weights_only=True)
    try:
        rows, around = held["embeddings"], held["cache"]
        rows = rows.reshape(-1, shape.width)
        around = around.reshape(shape.streams, -1).long()
    except (KeyError, TypeError, RuntimeError) as error:
        raise VoiceUnknown(f"{path} holds no voice of this model: {error}") from error
    return Voice(rows, around)
