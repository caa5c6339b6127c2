"""Options of the model ``openbmb/MiniCPM-o-4_5``."""

from __future__ import annotations

import sys
from dataclasses import dataclass

NAME = "openbmb/MiniCPM-o-4_5"
WINDOWS = ("basic", "context", "off")


@dataclass(frozen=True, slots=True)
class MiniCPMOptions:
    """``weights`` is the folder of the published files, ``python`` the interpreter that has the authors' packages.

    ``objects`` is how many sessions there is room for, each a loaded object of its own, or ``auto``: as many as fit
    into the device's memory. ``fake`` puts a double in their place that needs neither weights nor packages but numpy
    and says the same noise for the same sound. ``voices_from`` is where the server may fetch a client's voice from:
    prefixes like ``https://voices.example/`` or ``file:///srv/voices/``, comma separated; without one, only a data URL
    is taken. ``window`` is how a long call is forgotten: ``basic`` drops the oldest units beyond some 4,000 tokens,
    ``context`` keeps the words of what it drops, ``off`` keeps all until the device is full. ``compile`` lets
    torch compile the model: a longer start, shorter units.
    """

    weights: str | None = None
    python: str = sys.executable
    objects: str = "auto"
    device: str = "cuda"
    fake: bool = False
    voices_from: str = ""
    window: str = "basic"
    compile: bool = False
    seed: int = 0

    def complaint(self) -> str | None:
        """Why these options cannot work, ``None`` when they can."""
        if not self.fake and not self.weights:
            advice = "name the folder of the published files, or say fake=yes"
            return f"model {NAME}: option weights is missing; {advice}"
        if self.objects != "auto" and not (self.objects.isdecimal() and int(self.objects) > 0):
            return f"model {NAME}: option objects is {self.objects!r}; it is auto or a number from 1"
        if self.window not in WINDOWS:
            return f"model {NAME}: option window is {self.window!r}; it is one of {', '.join(WINDOWS)}"
        for prefix in self.allowed:
            if not prefix.startswith(("https://", "http://", "file:///")) or not prefix.endswith("/"):
                rule = "each is https://HOST/…/, http://HOST/…/ or file:///…/, with the slash at its end"
                return f"model {NAME}: option voices_from holds {prefix!r}; {rule}"
        return None

    @property
    def allowed(self) -> tuple[str, ...]:
        """The prefixes of ``voices_from``."""
        return tuple(prefix.strip() for prefix in self.voices_from.split(",") if prefix.strip())

    @property
    def engine(self) -> dict[str, str]:
        """What the engine is told."""
        told = {"objects": self.objects, "device": self.device, "fake": "yes" if self.fake else "no"}
        told |= {"seed": str(self.seed), "window": self.window, "compile": "yes" if self.compile else "no"}
        return told | ({"weights": self.weights} if self.weights else {})
