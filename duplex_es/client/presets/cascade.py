"""The project's own cascade: it finds the end of a turn by itself and can be interrupted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..audio import AudioFormat
from ..config import SessionConfig

MODEL = "cascade"


def create_duplex_session_config(
    *,
    instructions: str | None = None,
    tools: Sequence[Mapping[str, Any]] | None = None,
    input_rate_hz: int = 16_000,
    **overrides: Any,
) -> SessionConfig:
    """A telephone-like session: PCM16 in at ``input_rate_hz``, 24 kHz out; speech over an answer cuts it.

    History holds what was confirmed as played. Each override replaces the field of its name. Raises: TypeError for a
    field that does not exist.
    """
    preset = SessionConfig(
        input_audio=AudioFormat("pcm16", input_rate_hz),
        output_audio=AudioFormat("pcm16", 24_000),
        instructions=instructions,
        tools=tools,
        overlap_policy="barge_in_on_speech",
        playback_commit_policy="ack_only",
        turn_detection={"type": "server_vad"},
    )
    return replace(preset, **overrides)
