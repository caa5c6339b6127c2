"""Settings: from what the client wrote, through what the model can do, to what holds. All of it or nothing.

Source: docs/reference/realtime-api.md, "session.update".
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET

from ..model import ModelInfo, ReconfigureModel
from ..protocol import (
    ProtocolError,
    SessionConfig,
    TurnDetection,
    read_config,
    read_turn_detection,
    settle_overlap_policy,
)
from ..protocol.audio import PCM16
from ..protocol.dialects import KEPT_AS, continued_turn_taking, turn_based_detection
from .sound import DETECTABLE_HZ
from .state import Session, Settings, replace

_INPUT_PARAM = "audio.input.format"

_PLAIN_FIELDS = (
    "instructions",
    "voice",
    "temperature",
    "max_output_tokens",
    "speed",
    "idle_timeout_s",
    "overlap_short_ack_ms",
    "overlap_barge_in_ms",
    "overlap_silence_rms",
    "playback_commit_policy",
    "input_audio_transcription",
    "tool_choice",
    "tracing",
)
"""Taken over as they are; ``UNSET`` leaves the old value, ``None`` takes it away."""


def opening_settings(raw: dict[str, object], info: ModelInfo, model: str) -> Settings:
    """The settings a session opens with: the model's defaults under the client's wishes.

    Raises: ProtocolError ``unsupported_turn_detection``, ``unsupported_audio_format``,
    ``server_vad_requires_native_duplex`` or ``unsupported_ref_audio_path`` with the failing field.
    """
    config = read_config(raw)
    _check_extra_body(config, info)
    base = Settings(model=model, auto_response=info.auto_response, overlap_policy=info.overlap_policy)
    return _patched(base, config, info)


def updated_settings(session: Session, raw: dict[str, object]) -> Settings:
    """The settings after a later update. Raises: ProtocolError; the old settings then stay in force, all of them."""
    info, settings = session.info, session.settings
    if info is None:
        raise ProtocolError("bad_event", "The session is not open.")
    config = read_config(continued_turn_taking(raw, settings.extra.get(KEPT_AS)), opening=False)
    _check_sound(session, config)
    _check_extra_body(config, info)
    if isinstance(config.model, str) and settings.model and config.model != settings.model:
        message = f"session.model: this session talks to {settings.model!r}; open another one for {config.model!r}."
        raise ProtocolError("model_update_unsupported", message, "session.model")
    newest = next(session.answers(), None)
    spoken = newest is not None and newest.ledger.generated_ms > 0
    if isinstance(config.voice, str) and config.voice != settings.voice and spoken:
        message = "session.voice cannot change once an answer has been spoken; open another session for it."
        raise ProtocolError("voice_update_after_audio_unsupported", message, "session.voice")
    if isinstance(config.ref_audio, str):
        message = "session.ref_audio is fixed when the session opens; open another session for another voice."
        raise ProtocolError("ref_audio_update_unsupported", message, "session.ref_audio")
    _check_native_flag(config, settings)
    patched = _patched(settings, config, info)
    _check_fixed(session, info, patched)
    return patched


def _check_sound(session: Session, config: SessionConfig) -> None:
    """What a turn-based model's detector has begun to hear stays of one kind."""
    settings = session.settings
    if not session.is_chat_lane or settings.turn_detection is None or not _has_heard(session):
        return
    changes = {"input_format": config.input_encoding, "input_rate_hz": config.input_rate_hz}
    if any(new not in (UNSET, getattr(settings, name)) for name, new in changes.items()):
        message = "audio.input.format cannot change once a turn-based model with server_vad has been sent audio."
        raise ProtocolError("unsupported_audio_format", message, _INPUT_PARAM)


def _has_heard(session: Session) -> bool:
    """Whether any caller audio was ever accepted."""
    clock = session.input.clock
    return clock.samples > 0 or clock.base_us > 0


def _check_fixed(session: Session, info: ModelInfo, patched: Settings) -> None:
    """What a model fixes when it opens, and what it has built its context from."""
    if session.is_chat_lane and _has_heard(session) and patched.turn_detection != session.settings.turn_detection:
        message = "turn_detection cannot change once a turn-based model has been sent audio; open another session."
        raise ProtocolError("unsupported_turn_detection", message, "turn_detection")
    for name in info.fixed_settings:
        if getattr(patched, name, None) != getattr(session.settings, name, None):
            code = "instructions_update_unsupported" if name == "instructions" else "invalid_duplex_runtime_config"
            message = f"session.{name} is fixed when this model opens; open another session to change it."
            raise ProtocolError(code, message, f"session.{name}")


def _check_extra_body(config: SessionConfig, info: ModelInfo) -> None:
    """A voice is given as data or a reference; a path on the server's disk is never opened for a client.

    Keys that a model's runtime keeps for itself are not the client's to set.
    """
    body = {} if config.extra_body is UNSET else config.extra_body
    for key in body:
        if any(key == name or (name.endswith("*") and key.startswith(name[:-1])) for name in info.private_keys):
            param = f"session.extra_body.{key}"
            raise ProtocolError(
                "invalid_duplex_runtime_config", f"{param} belongs to the runtime; leave it out.", param
            )
    for key in ("ref_audio_path", "tts_ref_audio_path"):
        if config.extra_body is not UNSET and key in config.extra_body:
            param = f"session.extra_body.{key}"
            raise ProtocolError("unsupported_ref_audio_path", f"{param} is not taken; send ref_audio.", param)


def _check_native_flag(config: SessionConfig, settings: Settings) -> None:
    if config.extra_body is UNSET or "native_duplex" not in config.extra_body:
        return
    wanted = config.extra_body["native_duplex"]
    if not isinstance(wanted, bool):
        message = "session.extra_body.native_duplex must be true or false."
        raise ProtocolError("invalid_request_error", message, "session.extra_body.native_duplex")
    if wanted != settings.extra_body.get("native_duplex", wanted):
        message = "session.extra_body.native_duplex is fixed when the session opens."
        raise ProtocolError("native_duplex_mode_update_unsupported", message, "session.extra_body.native_duplex")


def _patched(settings: Settings, config: SessionConfig, info: ModelInfo) -> Settings:
    changes: dict[str, Any] = {}
    for field in _PLAIN_FIELDS:
        value = getattr(config, field)
        if value is not UNSET:
            changes[field] = value
    if config.modalities is not UNSET and config.modalities:
        changes["modalities"] = tuple(config.modalities)
    if config.tools is not UNSET:
        changes["tools"] = tuple(config.tools or ())
    if config.auto_response is not UNSET:
        changes["auto_response"] = config.auto_response
    if config.extra_body is not UNSET:
        changes["extra_body"] = {**settings.extra_body, **config.extra_body}
    if config.extra:
        extra = {**settings.extra, **config.extra}
        changes["extra"] = {key: value for key, value in extra.items() if value is not None}
    if config.audio is not UNSET:
        changes["audio"] = config.audio or {}
    changes.update(_formats(settings, config))
    changes.update(_turn_taking(settings, config, info))
    patched = replace(settings, **changes)
    _check_detectable(patched, info)
    return patched


def _check_detectable(settings: Settings, info: ModelInfo) -> None:
    """A turn-based model's detector hears PCM16 of two rates."""
    if not info.is_chat_lane or settings.turn_detection is None:
        return
    if settings.input_format != PCM16 or settings.input_rate_hz not in DETECTABLE_HZ:
        message = "turn_detection of a turn-based model needs mono pcm16 input at 16000 or 24000 Hz."
        raise ProtocolError("unsupported_turn_detection", message, _INPUT_PARAM)


def _formats(settings: Settings, config: SessionConfig) -> dict[str, object]:
    changes: dict[str, object] = {}
    if config.input_channels not in (UNSET, 1):
        message = f"audio.input.format: audio must be mono, not {config.input_channels} channels."
        raise ProtocolError("unsupported_audio_format", message, "audio.input.format")
    if config.input_encoding is not UNSET:
        changes["input_format"] = config.input_encoding
    if config.input_rate_hz is not UNSET:
        changes["input_rate_hz"] = config.input_rate_hz
    if config.output_encoding is not UNSET:
        changes["output_format"] = config.output_encoding
        if config.output_encoding != settings.output_format:
            changes["output_rate_hz"] = None  # The old format's rate says nothing about the new one's.
    if config.output_rate_hz is not UNSET:
        changes["output_rate_hz"] = config.output_rate_hz
    return changes


def _turn_taking(settings: Settings, config: SessionConfig, info: ModelInfo) -> dict[str, object]:
    """Turn detection and the overlap policy, which must agree.

    A model that interrupts itself (its own policy is ``barge_in_on_speech``) needs no detector for that.
    """
    native = not info.is_chat_lane
    known = settings.turn_detection
    current = msgspec.convert(known, TurnDetection) if known is not None else None
    wanted = config.turn_detection
    detector = None if native else turn_based_detection(config.extra.get(KEPT_AS))
    if detector is not None:  # What a stock client asked for, before it was put into the words of the other lane.
        wanted = read_turn_detection({"turn_detection": detector})
    if wanted is not UNSET and wanted is not None:
        wanted = wanted.for_lane(native=native)
        if not native:  # has no such thing, and would be refused with it when it is read again
            wanted = replace(wanted, min_speech_duration_ms=UNSET)
    detecting = wanted if wanted is not UNSET else current
    if detecting is None and info.overlap_policy == "barge_in_on_speech":
        default = settings.overlap_policy if wanted is UNSET else info.overlap_policy
        policy: object = default if config.overlap_policy is UNSET else config.overlap_policy
    else:
        policy = settle_overlap_policy(wanted, config.overlap_policy, current=current, native=native)
    changes: dict[str, object] = {} if policy is UNSET else {"overlap_policy": policy}
    if wanted is not UNSET:
        changes["turn_detection"] = wanted.to_wire() if wanted is not None else None
    return changes


def model_settings(settings: Settings) -> dict[str, Any]:
    """The part of the settings that the model is told."""
    return {
        "instructions": settings.instructions,
        "voice": settings.voice,
        "temperature": settings.temperature,
        "modalities": settings.modalities,
        "tools": settings.tools,
        "overlap_policy": settings.overlap_policy,
        "turn_detection": settings.turn_detection,
        "extra_body": settings.extra_body,
    }


def reconfigure_model(settings: Settings) -> ReconfigureModel:
    """The request that tells the model of new settings."""
    return ReconfigureModel(**model_settings(settings))
