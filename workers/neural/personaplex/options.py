"""What the engine can be told, and what a worker must know of it before it is loaded. Needs no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

NAME = "nvidia/personaplex-7b-v1"
WINDOWS_FRAMES = {"personaplex": 3000, "small": 750, "tiny": 24}
"""How far each shape looks back."""
RECORD_BYTES = 38
MEMORY_WINDOWS = 2
"""How many windows are remembered: what lies in the window was itself shaped by what lay before it."""

_NUMBERS = ("window_frames", "chunk_frames", "seed", "threads")
_CHOICES = {
    "shape": ("personaplex", "small", "tiny"),
    "dtype": ("auto", "bf16", "fp32"),
    "kv": ("auto", "bf16", "int8"),
    "path": ("auto", "plain", "fused"),
    "codec": ("fp32", "bf16"),
    "keep": ("nothing", "weights", "windows"),
}


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """``weights`` is the folder of the published files, or ``random``: noise of the same size.

    ``shape`` is ``personaplex``, or ``tiny`` for tests, or ``small`` for measuring on a processor. ``slots`` is a
    number, or ``auto``: as many as fit.
    ``window_frames`` shortens the window of 3000 frames; ``kv`` is how keys and values are kept (``auto``: in the
    model's own numbers); ``path`` is which kernels are used. ``chunk_frames`` is how much known context goes in
    between two beats.
    ``rebuild`` is how a lost session's window comes back: in long pieces (``fast``), equal up to rounding, or frame by
    frame through the kernels that made it (``exact``), equal bit by bit and much slower. ``seed`` changes all dice.
    ``threads`` is torch's on a processor; 0 leaves it to torch. ``codec`` is what the sound's codec computes in.
    ``keep`` is what outlives the engine's process when it dies, in memory that another process owns: ``weights``, or
    those and the sessions' ``windows``. With ``standby`` another engine's process waits for that moment.
    ``aged`` is for measuring, with ``weights`` ``random``: every session counts as one whose windows are full.
    """

    weights: str = ""
    shape: str = "personaplex"
    slots: str = "auto"
    window_frames: int | None = None
    device: str = "auto"
    dtype: str = "auto"
    kv: str = "auto"
    path: str = "auto"
    rebuild: str = "fast"
    greedy: bool = False
    seed: int = 0
    chunk_frames: int = 512
    threads: int = 0
    codec: str = "fp32"
    keep: str = "nothing"
    standby: bool = False
    aged: bool = False

    def __post_init__(self) -> None:
        if not self.weights:
            raise ValueError(_says("weights", "is missing", "name the folder of the published files, or random"))
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise ValueError(_says(name, f"is {getattr(self, name)!r}", f"it is one of {', '.join(choices)}"))
        if self.slots != "auto" and not (self.slots.isdecimal() and int(self.slots) > 0):
            raise ValueError(_says("slots", f"is {self.slots!r}", "it is auto or a number from 1"))
        if self.aged and self.weights != "random":
            raise ValueError(_says("aged", "is set", "it is for measuring, with weights=random"))
        for name, least in (("window_frames", 2), ("chunk_frames", 1), ("threads", 0)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise ValueError(_says(name, f"is {value}", f"it is a number from {least}"))

    @property
    def memory_bytes(self) -> int:
        """How much of a session's memory is worth keeping."""
        window = self.window_frames or WINDOWS_FRAMES[self.shape]
        return MEMORY_WINDOWS * window * RECORD_BYTES


def read_engine_options(options: Mapping[str, str]) -> EngineOptions:
    """The options from their texts. Raises: ValueError naming the option and what it may be."""
    known = {field.name for field in fields(EngineOptions)}
    unknown = sorted(set(options) - known)
    if unknown:
        raise ValueError(_says(unknown[0], "is unknown", f"there are {', '.join(sorted(known))}"))
    found: dict[str, object] = dict(options)
    for name in _NUMBERS:
        if name in options:
            try:
                found[name] = int(options[name])
            except ValueError:
                raise ValueError(_says(name, f"is {options[name]!r}", "it is a number")) from None
    for name in {"greedy", "standby", "aged"} & set(options):
        word = options[name].strip().lower()
        if word not in {"yes", "no", "true", "false", "1", "0"}:
            raise ValueError(_says(name, f"is {word!r}", "it is yes or no"))
        found[name] = word in {"yes", "true", "1"}
    return EngineOptions(**found)  # type: ignore[arg-type]


def _says(name: str, fault: str, advice: str) -> str:
    return f"model {NAME}: option {name} {fault}; {advice}"
