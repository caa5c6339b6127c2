"""Nemotron VoiceChat, which answers only by its own decision and calls tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..audio import AudioFormat
from ..config import SessionConfig

MODEL = "nvidia/NVIDIA-NemotronLabs-VoiceChat-11B"
CHUNK_MS = 80
"""The longest append it takes."""


def create_duplex_session_config(
    *, instructions: str | None = None, tools: Sequence[Mapping[str, Any]] | None = None, **overrides: Any
) -> SessionConfig:
    """A session with up to five ``tools``: 16 kHz in, in appends of ``CHUNK_MS`` at most, 22.05 kHz out.

    ``instructions`` and ``tools`` hold for the whole session. Each override replaces the field of its name,
    ``extra_body`` only the entries it has. Raises: TypeError for a field that does not exist.
    """
    preset = SessionConfig(
        input_audio=AudioFormat("pcm_f32le", 16_000),
        output_audio=AudioFormat("pcm16", 22_050),
        instructions=instructions,
        tools=tools,
        auto_response=True,
        extra_body={"auto_response": True, **overrides.pop("extra_body", {})},
    )
    return replace(preset, **overrides)
