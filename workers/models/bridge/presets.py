"""What is known of published models behind a realtime server, and no server says of itself."""

from __future__ import annotations

from dataclasses import dataclass

from duplex_es.protocol.audio import PCM16, PCM_F32LE
from duplex_es.protocol.objects import Capabilities

from ..lanes import CHAT, native


@dataclass(frozen=True, slots=True)
class Preset:
    """One row. ``capabilities`` hold until a server has said its own.

    ``encoding`` and ``input_rate_hz`` are what it takes; ``longest_append_samples`` how much of it at a time.
    ``takes_text_turns`` and ``takes_response_options`` as on the model's card.
    """

    capabilities: Capabilities
    encoding: str = PCM16
    input_rate_hz: int = 16_000
    output_rate_hz: int = 24_000
    longest_append_samples: int | None = None
    takes_text_turns: bool = True
    takes_response_options: bool = True
    fixed_settings: tuple[str, ...] = ()
    private_keys: tuple[str, ...] = ()


PRESETS: dict[str, Preset] = {
    "any": Preset(native(supports_external_turn_signal=True, supports_barge_in=True, supports_audio_truncate=True)),
    "minicpmo_4_5": Preset(
        native(supports_external_turn_signal=True, supports_barge_in=True, supports_audio_truncate=True),
        takes_response_options=False,
        private_keys=(
            "duplex_stage_sampling_params",
            "duplex_stage_max_tokens",
            "duplex_stage0_max_tokens",
            "duplex_scheduler_token_id",
            "duplex_first_append_context_tokens",
            "ref_audio_data",
            "ref_audio_format",
            "ref_audio_sample_rate_hz",
            "initial_user_text",
        ),
    ),
    "personaplex": Preset(
        native(supports_client_commit=False, supports_session_resume=False),
        encoding=PCM_F32LE,
        input_rate_hz=24_000,
        takes_text_turns=False,
        takes_response_options=False,
        private_keys=("personaplex_prefill_slots", "personaplex_model_path"),
    ),
    "nemotron_voicechat": Preset(
        native(supports_multi_session_same_replica=False),
        longest_append_samples=1_280,
        takes_text_turns=False,
        takes_response_options=False,
        fixed_settings=("instructions", "tools"),
        private_keys=("nvc_*",),
    ),
    "qwen3_omni": Preset(CHAT),
}
"""Name → row. ``any`` is a model that is known by nothing but what its server says."""
