"""A session's ``turn_detection`` as settings of the ears."""

from __future__ import annotations

from typing import Any

from workers.vad.endpoint import EndpointSettings
from workers.vad.silero import FRAME_MS

from .hearing import HearingSettings
from .options import CascadeOptions

LEAST_PREFIX_MS = 96


def hearing_settings(
    options: CascadeOptions, turn_detection: dict[str, Any] | None, *, ends_turns: bool
) -> HearingSettings:
    """What the client set, and the operator's or built-in values for the rest; wrong types are taken as not set."""
    wish = turn_detection or {}
    endpoint = EndpointSettings(
        threshold=float(_number(wish, "threshold", 0.5)),
        frame_ms=FRAME_MS,
        min_speech_ms=max(FRAME_MS, int(_number(wish, "min_speech_duration_ms", 96))),
        silence_ms=max(FRAME_MS, int(_number(wish, "silence_duration_ms", options.silence_ms))),
    )
    return HearingSettings(
        endpoint=endpoint,
        prefix_ms=max(LEAST_PREFIX_MS, int(_number(wish, "prefix_padding_ms", 320))),
        barge_in_ms=options.barge_in_ms,
        ends_turns=ends_turns,
    )


def _number(wish: dict[str, Any], name: str, default: float) -> float:
    value = wish.get(name)
    return value if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 else default
