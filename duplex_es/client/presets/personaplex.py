"""PersonaPlex, which speaks all the time in frames of 80 ms, in one of its own voices."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..audio import AudioFormat
from ..config import SessionConfig

MODEL = "nvidia/personaplex-7b-v1"


def create_duplex_session_config(*, voice: str = "NATF2.pt", persona: str = "", **overrides: Any) -> SessionConfig:
    """A session of ``persona`` in ``voice``: 24 kHz float samples in, 24 kHz PCM16 out.

    Each override replaces the field of its name. Raises: TypeError for a field that does not exist.
    """
    preset = SessionConfig(
        input_audio=AudioFormat("pcm_f32le", 24_000),
        output_audio=AudioFormat("pcm16", 24_000),
        voice=voice,
        instructions=persona,
    )
    return replace(preset, **overrides)
