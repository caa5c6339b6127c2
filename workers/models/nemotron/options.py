"""Options of the model ``nvidia/NVIDIA-NemotronLabs-VoiceChat-11B``."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

from workers.neural_nemotron.options import NAME, EngineOptions, read_engine_options

from ..speech.missing import EXTRA

VOICE, OFF = "voice", "off"
TALKER = "workers.models.speech.talker:make"
_FACTORY = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class NemotronOptions:
    """``python`` is the engine's interpreter. All that is not named here goes to the engine, which knows its own.

    ``speech`` is who speaks: ``voice`` is the one that comes with this package (not the model's own), ``off`` leaves
    it at text, ``MODULE:FACTORY`` is somebody else's, run by ``speech_python``; any other ``speech_NAME`` is handed to
    that as ``NAME``.
    """

    python: str
    speech: str
    speech_python: str
    engine: EngineOptions
    engine_texts: Mapping[str, str]
    speech_options: Mapping[str, str] = field(default_factory=dict)

    @property
    def talker(self) -> str | None:
        """The factory of who speaks, ``None`` for text only."""
        return {VOICE: TALKER, OFF: None}.get(self.speech, self.speech)

    def missing(self) -> str | None:
        """What has to be installed before this can be loaded, ``None`` if it is there."""
        if self.speech != VOICE or self.speech_python != sys.executable or importlib.util.find_spec("hibari"):
            return None
        return f"package hibari-tts is missing for speech={VOICE}; install it with: {EXTRA}, or set speech={OFF}"


def read_nemotron_options(options: Mapping[str, str]) -> NemotronOptions:
    """The options from their texts. Raises: ValueError naming the option and what it may be."""
    left = dict(options)
    python, speech = left.pop("python", sys.executable), left.pop("speech", VOICE)
    speech_python = left.pop("speech_python", sys.executable)
    for name, value in (("python", python), ("speech_python", speech_python)):
        if not value.strip():
            raise ValueError(f"model {NAME}: option {name} is empty; it is the path of an interpreter")
    if speech not in (VOICE, OFF) and not _FACTORY.fullmatch(speech):
        raise ValueError(f"model {NAME}: option speech is {speech!r}; it is {VOICE}, {OFF} or MODULE:FACTORY")
    to_speech = {name.removeprefix("speech_"): left.pop(name) for name in list(left) if name.startswith("speech_")}
    if to_speech and speech in (VOICE, OFF):
        name = sorted(to_speech)[0]
        raise ValueError(f"model {NAME}: option speech_{name} is for speech=MODULE:FACTORY; speech is {speech!r}")
    return NemotronOptions(python, speech, speech_python, read_engine_options(left), left, to_speech)
