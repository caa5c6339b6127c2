"""The published models as scripted ones: their cards, and a script that speaks as they do.

No weights are behind them. A profile lets every surface be tested that a client branches on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from duplex_es.model import ModelInfo
from duplex_es.protocol.objects import Capabilities

from .. import cards

Steps = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Profile(cards.Published):
    """One model's shape and what is said in it."""

    script: Steps = field(default_factory=list)


def _played(model: cards.Published, script: Steps) -> Profile:
    return Profile(info=model.info, units=model.units, refuse=model.refuse, script=script)


def _answers(text: str, *events: str) -> Steps:
    do: list[dict[str, Any]] = [{"audio_ms": 2_000, "text": text}, {"finish": True}]
    return [{"on": event, "every": True, "do": do} for event in events]


# -- scripted itself -----------------------------------------------------------------------------------------------

PLAIN_CARD = ModelInfo(
    name="scripted",
    capabilities=Capabilities(
        supports_barge_in=True,
        supports_audio_truncate=True,
        supports_client_commit=True,
        supports_playback_ack=True,
        supports_external_turn_signal=False,
        supports_model_native_turn_policy=True,
        chunk_period_ms=160,
    ),
    input_rate_hz=16_000,
    output_rate_hz=24_000,
    transcribes=True,
    takes_text_turns=True,
    takes_response_options=True,
    auto_response=True,
    can_rebuild=True,
)

# -- the published ones --------------------------------------------------------------------------------------------

PROFILES: dict[str, Profile] = {
    "minicpmo_4_5": _played(cards.MINICPM, _answers("This is an answer in units of a second.", "end_turn", "generate")),
    # It speaks, silence included, from the first frame to the end; what cancels it starts it over.
    "personaplex": _played(
        cards.PERSONAPLEX,
        [
            {"on": event, "every": event == "interrupt", "at": at, "do": [{"audio_ms": 80, "endless": True}]}
            for event, at in (("audio_ms", 80), ("interrupt", 0))
        ],
    ),
    "nemotron_voicechat": _played(cards.NEMOTRON, _answers("This is an answer in frames.", "end_turn", "tool_output")),
    "qwen3_omni": _played(cards.QWEN3_OMNI, _answers("This is a chat answer.", "end_turn", "generate", "tool_output")),
}
"""What ``--model-option profile=…`` takes."""
