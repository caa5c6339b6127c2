"""What the published models' own servers say of them, flag by flag: the table that the cards here are held against.

Three flags depend there on how many sessions a server is started for; they stand as of one that takes several, but for
Nemotron VoiceChat, which takes one.
"""

from __future__ import annotations

from collections.abc import Mapping

COLUMNS = ("qwen3_omni", "minicpmo_4_5", "personaplex", "nemotron_voicechat")
"""The chat lane, whose model here is Qwen3-Omni, and three that listen while they speak."""

FLAGS: Mapping[str, tuple[object, ...]] = {
    "implementation_level": ("serving_session_adapter",) + ("model_native_duplex",) * 3,
    "supports_session_adapter": (True, True, True, True),
    "supports_model_native_turn_policy": (False, True, True, True),
    "supports_external_turn_signal": (True, True, False, False),
    "supports_client_commit": (True, True, False, True),
    "supports_barge_in": (True, True, False, False),
    "supports_playback_ack": (True, True, True, True),
    "supports_input_append": (False, True, True, True),
    "supports_replace_latest_chunk": (True, False, False, False),
    "supports_reencode_context": (True, False, False, False),
    "supports_rollback_to_checkpoint": (False, False, False, False),
    "supports_turn_commit_only": (True, False, False, False),
    "supports_kv_lease": (False, False, False, False),
    "supports_core_kv_lease": (False, False, False, False),
    "supports_model_internal_state": (False, True, True, True),
    "supports_stage_resumption": (False, True, True, True),
    "supports_core_resumable_request": (False, True, True, True),
    "supports_stage_connector_handoff": (False, True, True, True),
    "supports_independent_io_streams": (False, True, True, True),
    "supports_realtime_endpoint": (False, True, True, True),
    "supports_scheduler_native_append": (False, False, False, False),
    "supports_multi_session": (False, True, True, False),
    "supports_multi_session_same_replica": (False, True, True, False),
    "supports_session_lease": (False, True, True, True),
    "supports_session_resume": (False, True, False, True),
    "session_admission_mode": ("serving_managed", "engine_managed", "engine_managed", "engine_managed"),
    "supports_audio_truncate": (False, True, False, False),
    "requires_model_runner_kv": (False, True, True, True),
    "requires_native_stage_role": (False, True, True, True),
    "adapter_patterns": (["chunk_group_append"],) + (["scheduler_data_plane"],) * 3,
    "input_modes": (["turn_commit_only", "reencode_context"],) + (["append_audio_chunk"],) * 3,
    "signal_sources": (
        ["client_event", "server_policy", "model_native"],
        ["model_native", "client_event", "server_policy"],
        ["model_native", "client_event"],
        ["model_native", "client_event"],
    ),
    "stage_handoff_transport": (None,) + ("scheduler_data_plane",) * 3,
    "chunk_period_ms": (1000, 1000, 80, 80),
    "target_barge_in_latency_ms": (1000, None, None, None),
}


def published(column: str) -> dict[str, object]:
    """Every flag of one column, by name."""
    place = COLUMNS.index(column)
    return {flag: values[place] for flag, values in FLAGS.items()}
