"""Options of the model ``Qwen/Qwen3-Omni-30B-A3B-Instruct``."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from ..floor import DEFAULT_LEAD_MS

NAME = "Qwen/Qwen3-Omni-30B-A3B-Instruct"
LEAST_CONTEXT = 256


@dataclass(frozen=True, slots=True)
class QwenOptions:
    """``weights`` is the folder of the published files, ``python`` the interpreter that has torch and transformers.

    ``weights=random`` with ``shape=tiny`` runs a small model of the same structure on random numbers: noise, but all of
    the code. ``slots`` is how many turns are answered at a time, or ``auto``: as many as fit into the device's memory;
    others wait. ``context`` is how many tokens a turn and its answer may have, ``max_tokens`` how many its answer, and
    ``longest_answer_s`` how long that is spoken at most. ``voice`` speaks where a session names none.

    ``talker_temperature`` is how freely speech is drawn (0: always the likeliest), ``seed`` names the dice. ``lead_ms``
    is how far audio runs ahead of real time (``none``: as fast as it comes). ``threads`` are torch's, on a processor.
    """

    weights: str | None = None
    shape: str = "published"
    python: str = sys.executable
    device: str = "cuda"
    slots: str = "auto"
    context: int = 8192
    max_tokens: int = 1024
    longest_answer_s: float = 120.0
    voice: str = "Ethan"
    talker_temperature: float = 0.9
    seed: int = 0
    lead_ms: int | None = DEFAULT_LEAD_MS
    threads: int | None = None

    def complaint(self) -> str | None:
        """Why these options cannot work, ``None`` when they can."""
        if not self.weights:
            advice = "name the folder of the published files, or say random"
            return f"model {NAME}: option weights is missing; {advice}"
        if (self.weights == "random") != (self.shape == "tiny"):
            rule = "published with the published files, tiny with weights=random"
            return f"model {NAME}: option shape is {self.shape!r}; it is {rule}"
        if self.slots != "auto" and not (self.slots.isdecimal() and int(self.slots) > 0):
            return f"model {NAME}: option slots is {self.slots!r}; it is auto or a number from 1"
        if self.context < LEAST_CONTEXT:
            return f"model {NAME}: option context is {self.context}; it is from {LEAST_CONTEXT}"
        if not 0 < self.max_tokens <= self.context // 2:
            return f"model {NAME}: option max_tokens is {self.max_tokens}; it is from 1 to half of context"
        if self.longest_answer_s <= 0 or self.talker_temperature < 0:
            return f"model {NAME}: longest_answer_s is above 0, talker_temperature is not below"
        if self.threads is not None and self.threads < 1:
            return f"model {NAME}: option threads is {self.threads}; it is from 1"
        return None

    @property
    def engine(self) -> dict[str, str]:
        """What the engine is told."""
        names = ("device", "slots", "context", "max_tokens", "longest_answer_s", "talker_temperature", "seed")
        told = {name: str(getattr(self, name)) for name in names}
        if self.threads is not None:
            told["threads"] = str(self.threads)
        return {**told, "weights": self.weights or ""}
