"""What a call went through when its gateway was lost: counted from what the caller heard, not from what should be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from ..client import ConnectionResumed
from .conversation import Conversation


@dataclass(frozen=True, slots=True)
class Survival:
    """``lost`` names the gateway, empty if none was. ``pause_ms`` is from its end to the resumed connection.

    ``frames`` were heard in all; ``missing`` of their seqs never came, ``repeated`` came twice.
    """

    lost: str
    went_on: bool
    pause_ms: float
    frames: int
    missing: int
    repeated: int

    @classmethod
    def of(cls, conversation: Conversation, lost: str = "", lost_at_s: float = 0.0) -> Self:
        """What ``conversation`` tells of the loss of ``lost`` at ``lost_at_s`` (Unix seconds)."""
        seqs = [seq for each in conversation.heard if (seq := each.event.server_event_seq) is not None]
        resumed = next((each for each in conversation.heard if isinstance(each.event, ConnectionResumed)), None)
        different = set(seqs)
        return cls(
            lost=lost,
            went_on=resumed is not None,
            pause_ms=(resumed.at_s - lost_at_s) * 1000 if resumed else 0.0,
            frames=len(seqs),
            missing=max(different, default=0) - len(different),
            repeated=len(seqs) - len(different),
        )

    @property
    def is_complete(self) -> bool:
        """Whether every frame came exactly once."""
        return self.frames > 0 and self.missing == 0 and self.repeated == 0

    def rows(self) -> list[tuple[str, str]]:
        """The two columns of a table."""
        return [
            ("gateway killed mid-sentence", self.lost or "(none)"),
            ("call resumed elsewhere after", f"{self.pause_ms:.0f} ms" if self.went_on else "(not at all)"),
            ("frames heard", str(self.frames)),
            ("frames lost, repeated", f"{self.missing}, {self.repeated}"),
        ]
