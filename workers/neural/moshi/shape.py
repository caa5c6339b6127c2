"""The constants of a Moshi-shaped model. Needs the standard library only."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class MoshiShape:
    """Sizes of both transformers and how their streams are laid out in time.

    One frame has a text id and ``codebooks`` codes of each side. ``delays`` are those of one side's codes, in frames:
    0 or 1. ``window`` is how many frames the temporal transformer sees. The id after the last one (``text_card``,
    ``code_card``) stands for "nothing yet".

    The depth transformer of some models goes on after the model's own codes and guesses the caller's; as those are
    known, these steps change nothing and are neither run nor loaded.
    """

    width: int
    layers: int
    heads: int
    ffn: int
    window: int
    text_card: int
    code_card: int
    depth_width: int
    depth_layers: int
    depth_heads: int
    depth_ffn: int
    codebooks: int = 8
    delays: tuple[int, ...] = (0, 1, 1, 1, 1, 1, 1, 1)
    rope_theta: float = 10_000.0

    def __post_init__(self) -> None:
        if len(self.delays) != self.codebooks or set(self.delays) - {0, 1}:
            raise ValueError(f"delays {self.delays} are not one of 0 and 1 for each of {self.codebooks} codebooks")

    @property
    def head_size(self) -> int:
        """Numbers of one head's key."""
        return self.width // self.heads

    @property
    def depth_head_size(self) -> int:
        """The same in the depth transformer."""
        return self.depth_width // self.depth_heads

    @property
    def streams(self) -> int:
        """Ids of one model input: text, own codes, the caller's codes."""
        return 1 + 2 * self.codebooks

    @property
    def made(self) -> int:
        """Ids that the model makes in one frame: text and own codes."""
        return 1 + self.codebooks

    def with_window(self, frames: int | None) -> MoshiShape:
        """The same with another window; ``None`` leaves it."""
        return self if frames is None else replace(self, window=frames)


PERSONAPLEX = MoshiShape(
    width=4096,
    layers=32,
    heads=32,
    ffn=11_264,
    window=3000,
    text_card=32_000,
    code_card=2048,
    depth_width=1024,
    depth_layers=6,
    depth_heads=16,
    depth_ffn=2816,
)
"""nvidia/personaplex-7b-v1: 240 s of window at 12.5 frames a second."""

TINY = MoshiShape(
    width=64,
    layers=2,
    heads=2,
    ffn=96,
    window=24,
    text_card=100,
    code_card=64,
    depth_width=64,
    depth_layers=2,
    depth_heads=4,
    depth_ffn=48,
)
"""The same in small, for tests without a device."""

SMALL = MoshiShape(
    width=1024,
    layers=8,
    heads=8,
    ffn=2816,
    window=750,
    text_card=32_000,
    code_card=64,
    depth_width=256,
    depth_layers=2,
    depth_heads=4,
    depth_ffn=704,
)
"""Half a gigabyte of weights, and a codec as small as that of ``TINY``: for measuring on a processor."""

SHAPES = {"personaplex": PERSONAPLEX, "small": SMALL, "tiny": TINY}
"""What the option ``shape`` takes."""
