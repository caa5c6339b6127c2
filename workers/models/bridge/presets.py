"""What is known of published models behind a realtime server, and no server says of itself."""

from __future__ import annotations

from dataclasses import dataclass

from duplex_es.protocol.audio import PCM16, PCM_F32LE
from duplex_es.protocol.objects import Capabilities

from ..cards import MINICPM, NEMOTRON, PERSONAPLEX, QWEN3_OMNI, Published
from ..lanes import native


@dataclass(frozen=True, slots=True)
class Preset:
    """One row. ``capabilities`` hold until a server has said its own.

    ``encoding`` and ``input_rate_hz`` are what it takes; ``longest_append_samples`` how much of it at a time.
    ``takes_text_turns``, ``takes_response_options`` and ``takes_frames`` as on the model's card.
    """

    capabilities: Capabilities
    encoding: str = PCM16
    input_rate_hz: int = 16_000
    output_rate_hz: int = 24_000
    longest_append_samples: int | None = None
    takes_text_turns: bool = True
    takes_response_options: bool = True
    takes_frames: bool = False
    fixed_settings: tuple[str, ...] = ()
    private_keys: tuple[str, ...] = ()


def _of(known: Published, encoding: str = PCM16, *, takes_text_turns: bool, takes_frames: bool = False) -> Preset:
    """The row of a model that is known by name."""
    info = known.info
    return Preset(
        info.capabilities,
        encoding,
        input_rate_hz=info.input_rate_hz,
        longest_append_samples=info.longest_append_samples,
        takes_text_turns=takes_text_turns,
        takes_response_options=info.takes_response_options,
        takes_frames=takes_frames,
        fixed_settings=info.fixed_settings,
        private_keys=info.private_keys,
    )


PRESETS: dict[str, Preset] = {
    "any": Preset(native(supports_external_turn_signal=True, supports_barge_in=True, supports_audio_truncate=True)),
    "minicpmo_4_5": _of(MINICPM, takes_text_turns=True, takes_frames=True),
    "personaplex": _of(PERSONAPLEX, PCM_F32LE, takes_text_turns=False),
    "nemotron_voicechat": _of(NEMOTRON, takes_text_turns=False),
    "qwen3_omni": _of(QWEN3_OMNI, takes_text_turns=True),
}
"""Name → row. ``any`` is a model that is known by nothing but what its server says."""
