"""A bridge's card: what the server says of itself, as far as the bridge can keep it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from duplex_es.model import ModelInfo
from duplex_es.protocol.objects import Capabilities

from .presets import Preset

MEMORY_BYTES = 32 * 1024
POLICIES = ("listen_only", "barge_in_on_speech")


def card(name: str, preset: Preset, said: Mapping[str, object] | None, *, keeps_token: bool) -> ModelInfo:
    """``said`` is the server's session object, ``None`` where no server was reached: then the preset's row holds.

    What this service does itself is there whatever the server can: its sessions are leased, resumed and many, and
    playback is acknowledged to it. ``keeps_token``: the server's session can be taken up by another worker.
    """
    there = capabilities_of(said) or preset.capabilities
    native = there.implementation_level == "model_native_duplex"
    policy = (said or {}).get("overlap_policy")
    here = msgspec.structs.replace(
        there,
        supports_session_resume=True,
        supports_session_lease=True,
        supports_multi_session=True,
        supports_playback_ack=True,
    )
    return ModelInfo(
        name=name,
        capabilities=here,
        input_rate_hz=preset.input_rate_hz,
        output_rate_hz=preset.output_rate_hz,
        transcribes=True,
        takes_text_turns=preset.takes_text_turns,
        takes_response_options=preset.takes_response_options,
        ends_turns=native and there.supports_model_native_turn_policy is True,
        auto_response=native,
        overlap_policy=policy if isinstance(policy, str) and policy in POLICIES else "listen_only",
        memory_bytes=MEMORY_BYTES if keeps_token and there.supports_session_resume else 0,
        longest_append_samples=preset.longest_append_samples,
        fixed_settings=preset.fixed_settings,
        private_keys=preset.private_keys,
        takes_frames=preset.takes_frames,
    )


def capabilities_of(said: Mapping[str, object] | None) -> Capabilities | None:
    """The flags of a session object; ``None`` where there are none that can be read."""
    try:
        return msgspec.convert((said or {}).get("capabilities"), Capabilities)
    except msgspec.ValidationError:
        return None
