"""MiniCPM-o 4.5, which hears, sees and speaks in units of a second and decides by itself when to speak."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..config import SessionConfig

MODEL = "openbmb/MiniCPM-o-4_5"


def create_duplex_session_config(*, ref_audio: str | None = None, **overrides: Any) -> SessionConfig:
    """A session in its own lane: 16 kHz in, 24 kHz out, history only as far as playback was confirmed.

    ``ref_audio``, a data URL of the assistant's voice, is needed for spoken answers. Each override replaces the field
    of its name, ``extra_body`` only the entries it has. Raises: TypeError for a field that does not exist.
    """
    extra_body = {"native_duplex": True, "force_listen_count": 0, **overrides.pop("extra_body", {})}
    preset = SessionConfig(
        ref_audio=ref_audio,
        overlap_policy="listen_only",
        playback_commit_policy="ack_only",
        extra_body=extra_body,
    )
    return replace(preset, **overrides)
