"""The session a client asks for, and its spelling on the wire."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .audio import AudioFormat

# Sent only when set: the server has its own defaults for all of them.
OPTIONAL_FIELDS = (
    "instructions",
    "ref_audio",
    "voice",
    "temperature",
    "overlap_policy",
    "playback_commit_policy",
    "idle_timeout_s",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionConfig:
    """What to open a session with. The defaults suit any model; ``extra_body`` carries what only one model knows.

    ``turn_detection`` is always sent: ``None`` says that the model decides by itself when to listen and to speak.
    ``auto_response`` lets it answer without a ``response.create``; an ``extra_body`` entry of that name wins.
    """

    modalities: Sequence[str] = ("audio", "text")
    input_audio: AudioFormat = field(default_factory=AudioFormat)
    output_audio: AudioFormat = field(default_factory=lambda: AudioFormat(sample_rate_hz=24_000))
    turn_detection: Mapping[str, Any] | None = None
    instructions: str | None = None
    ref_audio: str | None = None
    voice: str | None = None
    temperature: float | None = None
    overlap_policy: str | None = None
    playback_commit_policy: str | None = None
    idle_timeout_s: float | None = None
    tools: Sequence[Mapping[str, Any]] | None = None
    auto_response: bool = True
    extra_body: Mapping[str, Any] = field(default_factory=dict)

    def to_wire(self, *, model: str, session_id: str | None) -> dict[str, Any]:
        """The ``session`` object of an opening ``session.update``."""
        session: dict[str, Any] = {
            "model": model,
            "modalities": list(self.modalities),
            "input_audio_format": self.input_audio.encoding,
            "output_audio_format": self.output_audio.encoding,
            "sample_rate_hz": self.input_audio.sample_rate_hz,
            "audio": {
                "input": {"sample_rate_hz": self.input_audio.sample_rate_hz},
                "output": {"sample_rate_hz": self.output_audio.sample_rate_hz},
            },
            "turn_detection": None if self.turn_detection is None else dict(self.turn_detection),
            "extra_body": {"auto_response": self.auto_response, **self.extra_body},
        }
        if session_id is not None:
            session["session_id"] = session_id
        if self.tools is not None:
            session["tools"] = [dict(tool) for tool in self.tools]
        for name in OPTIONAL_FIELDS:
            if (value := getattr(self, name)) is not None:
                session[name] = value
        return session
