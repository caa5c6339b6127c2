"""What published models say of themselves, flag by flag: two lanes, and where one model differs."""

from __future__ import annotations

from typing import Any

import msgspec

from duplex_es.protocol.objects import Capabilities

NATIVE = Capabilities(
    implementation_level="model_native_duplex",
    supports_session_adapter=True,
    supports_model_native_turn_policy=True,
    supports_external_turn_signal=False,
    supports_client_commit=True,
    supports_barge_in=False,
    supports_playback_ack=True,
    supports_input_append=True,
    supports_replace_latest_chunk=False,
    supports_reencode_context=False,
    supports_rollback_to_checkpoint=False,
    supports_turn_commit_only=False,
    supports_kv_lease=False,
    supports_core_kv_lease=False,
    supports_model_internal_state=True,
    supports_stage_resumption=True,
    supports_core_resumable_request=True,
    supports_stage_connector_handoff=True,
    supports_independent_io_streams=True,
    supports_realtime_endpoint=True,
    supports_scheduler_native_append=False,
    supports_multi_session=True,
    supports_multi_session_same_replica=True,
    supports_session_lease=True,
    supports_session_resume=True,
    session_admission_mode="engine_managed",
    supports_audio_truncate=False,
    requires_model_runner_kv=True,
    requires_native_stage_role=True,
    adapter_patterns=["scheduler_data_plane"],
    input_modes=["append_audio_chunk"],
    signal_sources=["model_native", "client_event"],
    stage_handoff_transport="scheduler_data_plane",
    chunk_period_ms=80,
    target_barge_in_latency_ms=None,
)
"""A model that listens while it speaks, in frames of 80 ms."""

CHAT = Capabilities(
    implementation_level="serving_session_adapter",
    supports_session_adapter=True,
    supports_model_native_turn_policy=False,
    supports_external_turn_signal=True,
    supports_client_commit=True,
    supports_barge_in=True,
    supports_playback_ack=True,
    supports_input_append=False,
    supports_replace_latest_chunk=True,
    supports_reencode_context=True,
    supports_rollback_to_checkpoint=False,
    supports_turn_commit_only=True,
    supports_kv_lease=False,
    supports_core_kv_lease=False,
    supports_model_internal_state=False,
    supports_stage_resumption=False,
    supports_core_resumable_request=False,
    supports_stage_connector_handoff=False,
    supports_independent_io_streams=False,
    supports_realtime_endpoint=False,
    supports_scheduler_native_append=False,
    supports_multi_session=False,
    supports_multi_session_same_replica=False,
    supports_session_lease=False,
    supports_session_resume=False,
    session_admission_mode="serving_managed",
    supports_audio_truncate=False,
    requires_model_runner_kv=False,
    requires_native_stage_role=False,
    adapter_patterns=["chunk_group_append"],
    input_modes=["turn_commit_only", "reencode_context"],
    signal_sources=["client_event", "server_policy", "model_native"],
    stage_handoff_transport=None,
    chunk_period_ms=1000,
    target_barge_in_latency_ms=1000,
)
"""A model that is asked once per turn."""


def native(**differences: Any) -> Capabilities:
    """``NATIVE`` with these flags changed."""
    return msgspec.structs.replace(NATIVE, **differences)
