"""What the engine can be told. Needs no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

NAME = "nvidia/NVIDIA-NemotronLabs-VoiceChat-11B"
FRAME_MS, INPUT_HZ, OUTPUT_HZ = 80, 16_000, 22_050
FRAME_SAMPLES = INPUT_HZ * FRAME_MS // 1000
RECORD_BYTES = 12 + 2 * FRAME_SAMPLES
"""What a frame leaves behind: its number, its two tokens, and its sound in 16 bits."""

MOST_CHUNK_FRAMES = 2048
"""A longer piece would be one long beat for everybody else."""

_WHOLE = ("memory_frames", "context_frames", "chunk_frames", "pending_tokens", "top_k", "seed", "threads")
_CHOICES = {"shape": ("11b", "tiny"), "dtype": ("auto", "bf16", "fp32")}


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """``weights`` is the folder of the published files, or ``random``: noise of the same size.

    ``language`` is a folder with ``tokenizer.json`` of nvidia/NVIDIA-Nemotron-Nano-9B-v2, which is published apart;
    left out, it is that of the weights. ``shape`` is that of random weights: ``11b``, or ``tiny`` for tests. ``slots``
    is a number, or ``auto``: as many as fit.

    ``memory_frames`` is how many frames of a session are remembered, with their sound: while it is no longer, it is
    rebuilt as it was; a longer one goes on from its prompt and these. ``context_frames`` is how many frames and tokens
    of the prompt attention sees at once: when they are full, the oldest frame gives way. ``chunk_frames`` is how much
    known context is read between two beats. ``pending_tokens`` is how many forced tokens of the function channel may
    wait.

    A ``temperature`` above 0 draws what is said, of the ``top_k`` likeliest; ``seed`` changes all dice. The function
    channel always takes the likeliest. ``threads`` is torch's on a processor; 0 leaves it to torch.
    """

    weights: str = ""
    language: str = ""
    shape: str = "11b"
    slots: str = "auto"
    device: str = "auto"
    dtype: str = "auto"
    memory_frames: int = 3000
    context_frames: int = 12_000
    chunk_frames: int = 128
    pending_tokens: int = 4096
    temperature: float = 0.0
    top_k: int = 50
    seed: int = 0
    threads: int = 0

    def __post_init__(self) -> None:
        if not self.weights:
            raise ValueError(_says("weights", "is missing", "name the folder of the published files, or random"))
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise ValueError(_says(name, f"is {getattr(self, name)!r}", f"it is one of {', '.join(choices)}"))
        if self.slots != "auto" and not (self.slots.isdecimal() and int(self.slots) > 0):
            raise ValueError(_says("slots", f"is {self.slots!r}", "it is auto or a number from 1"))
        for name in ("memory_frames", "chunk_frames", "pending_tokens", "top_k"):
            if getattr(self, name) < 1:
                raise ValueError(_says(name, f"is {getattr(self, name)}", "it is a number from 1"))
        if self.chunk_frames > MOST_CHUNK_FRAMES:
            raise ValueError(_says("chunk_frames", f"is {self.chunk_frames}", f"it is at most {MOST_CHUNK_FRAMES}"))
        if self.threads < 0:
            raise ValueError(_says("threads", f"is {self.threads}", "it is a number from 0"))
        if not 0.0 <= self.temperature <= 2.0:
            raise ValueError(_says("temperature", f"is {self.temperature}", "it is a number from 0 to 2"))
        if self.context_frames < self.memory_frames + 2:
            fault = f"is {self.context_frames}, with memory_frames {self.memory_frames}"
            raise ValueError(_says("context_frames", fault, "what is remembered and the prompt must fit into it"))

    @property
    def prompt_tokens(self) -> int:
        """How long a prompt may be: what is remembered fits behind it."""
        return self.context_frames - self.memory_frames


def read_engine_options(options: Mapping[str, str]) -> EngineOptions:
    """The options from their texts. Raises: ValueError naming the option and what it may be."""
    known = {field.name for field in fields(EngineOptions)}
    unknown = sorted(set(options) - known)
    if unknown:
        raise ValueError(_says(unknown[0], "is unknown", f"there are {', '.join(sorted(known))}"))
    found: dict[str, object] = dict(options)
    for name in (*_WHOLE, "temperature"):
        if name in options:
            try:
                found[name] = float(options[name]) if name == "temperature" else int(options[name])
            except ValueError:
                raise ValueError(_says(name, f"is {options[name]!r}", "it is a number")) from None
    return EngineOptions(**found)  # type: ignore[arg-type]


def _says(name: str, fault: str, advice: str) -> str:
    return f"model {NAME}: option {name} {fault}; {advice}"
