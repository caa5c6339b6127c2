"""What the settings of a ``session.update`` and the options of a ``response.create`` say, under all their spellings.

Reading is lenient as the contract has it: a wrong type is not read, an unknown policy becomes the default one. Only
turn detection and audio formats can be refused. The result is a patch: ``UNSET`` is "leave it", ``None`` "take it
away".
"""

from __future__ import annotations

from typing import TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from .audio import DEFAULT_RATE_HZ, DeclaredFormat, check_rate, read_format
from .loose_fields import (
    at_path,
    choice,
    first_said,
    is_number,
    items,
    mapping,
    mappings,
    names,
    number,
    text,
    text_or_mapping,
    token_limit,
)
from .objects import Plain, SessionObject
from .turn_detection import TurnDetection, read_turn_detection

OVERLAP_POLICIES = ("listen_only", "barge_in_on_speech")
COMMIT_POLICIES = ("commit_all_on_done", "ack_only")
DEFAULT_IDLE_TIMEOUT_S = 300.0
MIN_IDLE_TIMEOUT_S = 0.1
REF_AUDIO_ECHO_CHARS = 2_048
"""A longer ``ref_audio`` is not echoed: session frames stay small."""

_T = TypeVar("_T")

_INPUT_PARAM = "audio.input.format"
_OUTPUT_PARAM = "audio.output.format"
_TOKEN_SPELLINGS = ("max_response_output_tokens", "max_output_tokens", "max_tokens")
_OPEN_OVERRIDES = ("overlap_short_ack_ms", "overlap_barge_in_ms", "overlap_silence_rms")
_UPDATE_OVERRIDES = ("overlap_policy", "playback_commit_policy")
_OWN_KEYS = frozenset(SessionObject.__struct_fields__)


class SessionConfig(msgspec.Struct, frozen=True, kw_only=True):
    """One client's settings, read. ``input_*`` and ``output_*`` hold canonical encodings and rates in Hz.

    ``audio`` is the block the client wrote, to be echoed verbatim; ``extra`` what else there is to echo.
    ``turn_detection`` still lacks the defaults that depend on the model: ``TurnDetection.for_lane``.
    """

    model: str | UnsetType | None = UNSET
    session_id: str | UnsetType = UNSET
    modalities: list[str] | UnsetType = UNSET
    instructions: str | UnsetType | None = UNSET
    voice: str | UnsetType | None = UNSET
    ref_audio: str | UnsetType | None = UNSET
    input_encoding: str | UnsetType = UNSET
    input_rate_hz: int | UnsetType = UNSET
    input_channels: int | UnsetType = UNSET
    output_encoding: str | UnsetType = UNSET
    output_rate_hz: int | UnsetType = UNSET
    temperature: float | UnsetType | None = UNSET
    max_output_tokens: int | UnsetType | None = UNSET
    speed: float | UnsetType | None = UNSET
    idle_timeout_s: float | UnsetType = UNSET
    overlap_policy: str | UnsetType = UNSET
    overlap_short_ack_ms: int | UnsetType = UNSET
    overlap_barge_in_ms: int | UnsetType = UNSET
    overlap_silence_rms: float | UnsetType = UNSET
    playback_commit_policy: str | UnsetType = UNSET
    turn_detection: TurnDetection | UnsetType | None = UNSET
    tools: list[Plain] | UnsetType | None = UNSET
    tool_choice: str | Plain | UnsetType | None = UNSET
    metadata: Plain | UnsetType | None = UNSET
    include: list[object] | UnsetType | None = UNSET
    prompt: Plain | UnsetType | None = UNSET
    tracing: str | Plain | UnsetType | None = UNSET
    input_audio_transcription: Plain | UnsetType | None = UNSET
    input_audio_noise_reduction: Plain | UnsetType | None = UNSET
    audio: Plain | UnsetType | None = UNSET
    extra_body: Plain | UnsetType = UNSET
    extra: Plain = {}

    @property
    def auto_response(self) -> bool | UnsetType:
        """Whether the model decides by itself when to speak; only a literal ``true`` is a yes."""
        if self.extra_body is UNSET:
            return UNSET
        said = first_said(self.extra_body, "auto_response", "full_duplex")
        return UNSET if said is UNSET else said is True


class ResponseOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a ``response.create`` asks for, for this one response. ``conversation="none"`` keeps it out of history."""

    modalities: list[str] | UnsetType = UNSET
    instructions: str | UnsetType | None = UNSET
    voice: str | UnsetType | None = UNSET
    output_encoding: str | UnsetType = UNSET
    output_rate_hz: int | UnsetType = UNSET
    temperature: float | UnsetType | None = UNSET
    max_output_tokens: int | UnsetType | None = UNSET
    speed: float | UnsetType | None = UNSET
    conversation: str | UnsetType | None = UNSET
    metadata: Plain | UnsetType | None = UNSET
    prompt: Plain | UnsetType | None = UNSET
    tools: list[Plain] | UnsetType | None = UNSET
    tool_choice: str | Plain | UnsetType | None = UNSET
    extra_body: Plain | UnsetType | None = UNSET


def read_config(raw: Plain, *, opening: bool = True) -> SessionConfig:
    """The settings in ``raw``; ``opening`` says that they open the session (more of ``extra_body`` counts then).

    Raises: ProtocolError ``unsupported_turn_detection`` (param ``turn_detection``), then ``unsupported_audio_format``
    (param ``audio.input.format`` or ``audio.output.format``).
    """
    turn_detection = read_turn_detection(raw)
    heard, spoken = _input_format(raw), _output_format(raw)
    extra_body = _extra_body(raw)
    policies = _with_overrides(raw, extra_body, opening=opening)
    return SessionConfig(
        model=text(raw, "model"),
        session_id=_session_id(raw),
        modalities=names(raw, "modalities", "output_modalities"),
        instructions=text(raw, "instructions"),
        voice=text(raw, "voice", "audio.output.voice"),
        ref_audio=text(raw, "ref_audio"),
        input_encoding=_or_unset(heard.encoding),
        input_rate_hz=_or_unset(heard.sample_rate_hz),
        input_channels=_or_unset(heard.channels),
        output_encoding=_or_unset(spoken.encoding),
        output_rate_hz=_or_unset(spoken.sample_rate_hz),
        temperature=number(raw, "temperature"),
        max_output_tokens=token_limit(raw, *_TOKEN_SPELLINGS),
        speed=number(raw, "speed", "audio.output.speed"),
        idle_timeout_s=_idle_timeout_s(raw),
        overlap_policy=choice(policies, "overlap_policy", OVERLAP_POLICIES, "listen_only"),
        overlap_short_ack_ms=_clamped_ms(policies, "overlap_short_ack_ms"),
        overlap_barge_in_ms=_clamped_ms(policies, "overlap_barge_in_ms"),
        overlap_silence_rms=_clamped(policies, "overlap_silence_rms"),
        playback_commit_policy=choice(policies, "playback_commit_policy", COMMIT_POLICIES, "commit_all_on_done"),
        turn_detection=turn_detection,
        tools=mappings(raw, "tools"),
        tool_choice=text_or_mapping(raw, "tool_choice"),
        metadata=mapping(raw, "metadata"),
        include=items(raw, "include"),
        prompt=mapping(raw, "prompt"),
        tracing=text_or_mapping(raw, "tracing"),
        input_audio_transcription=mapping(raw, "input_audio_transcription", "audio.input.transcription"),
        input_audio_noise_reduction=mapping(raw, "audio.input.noise_reduction", "input_audio_noise_reduction"),
        audio=mapping(raw, "audio"),
        extra_body=extra_body,
        extra=_extra(raw),
    )


def read_response_options(raw: Plain | UnsetType) -> ResponseOptions:
    """The options in ``raw``. Raises: ProtocolError ``unsupported_audio_format``, param ``audio.output.format``."""
    if raw is UNSET:
        return ResponseOptions()
    spoken = _output_format(raw)
    return ResponseOptions(
        modalities=names(raw, "modalities", "output_modalities"),
        instructions=text(raw, "instructions"),
        voice=text(raw, "voice", "audio.output.voice"),
        output_encoding=_or_unset(spoken.encoding),
        output_rate_hz=_or_unset(spoken.sample_rate_hz),
        temperature=number(raw, "temperature"),
        max_output_tokens=token_limit(raw, *_TOKEN_SPELLINGS),
        speed=number(raw, "speed", "audio.output.speed"),
        conversation=text(raw, "conversation"),
        metadata=mapping(raw, "metadata"),
        prompt=mapping(raw, "prompt"),
        tools=mappings(raw, "tools"),
        tool_choice=text_or_mapping(raw, "tool_choice"),
        extra_body=mapping(raw, "extra_body"),
    )


def _input_format(raw: Plain) -> DeclaredFormat:
    """A format without a rate has its default one; a rate without a format stands alone."""
    declared = read_format(_declared(raw, "input_audio_format", _INPUT_PARAM), param=_INPUT_PARAM)
    beside = first_said(raw, "sample_rate_hz", "sample_rate", "audio.input.sample_rate_hz", "audio.input.sample_rate")
    rate = check_rate(None if beside is UNSET else beside, param=_INPUT_PARAM) or declared.sample_rate_hz
    if rate is None and declared.encoding is not None:
        rate = DEFAULT_RATE_HZ[declared.encoding]
    return declared._replace(sample_rate_hz=rate)


def _output_format(raw: Plain) -> DeclaredFormat:
    said = _declared(raw, "output_audio_format", "response_format", _OUTPUT_PARAM)
    declared = read_format(said, param=_OUTPUT_PARAM, output=True)
    beside = first_said(raw, "audio.output.sample_rate_hz", "audio.output.sample_rate")
    rate = check_rate(None if beside is UNSET else beside, param=_OUTPUT_PARAM)
    return declared._replace(sample_rate_hz=rate or declared.sample_rate_hz)


def _declared(raw: Plain, *spellings: str) -> object:
    said = first_said(raw, *spellings)
    return None if said is UNSET else said


def _session_id(raw: Plain) -> str | UnsetType:
    """The id the client chose: any string that is not empty."""
    said = first_said(raw, "session_id", "id")
    return said if isinstance(said, str) and said else UNSET


def _idle_timeout_s(raw: Plain) -> float | UnsetType:
    """At least 0.1 s; what is no number, or 0, is the default."""
    said = at_path(raw, "idle_timeout_s")
    if said is UNSET:
        return UNSET
    if isinstance(said, int | float) and is_number(said) and said:
        return max(MIN_IDLE_TIMEOUT_S, float(said))
    return DEFAULT_IDLE_TIMEOUT_S


def _extra_body(raw: Plain) -> Plain | UnsetType:
    """The object, with the deprecated name of ``native_duplex`` folded into it."""
    said = mapping(raw, "extra_body")
    if said is UNSET or said is None:
        return UNSET
    folded = {key: value for key, value in said.items() if key != "minicpmo45_native_duplex"}
    if "minicpmo45_native_duplex" in said:
        folded.setdefault("native_duplex", said["minicpmo45_native_duplex"])
    return folded


def _with_overrides(raw: Plain, extra_body: Plain | UnsetType, *, opening: bool) -> Plain:
    """Where the overlap and playback settings are read: inside ``extra_body`` they win."""
    if extra_body is UNSET:
        return raw
    keys = _UPDATE_OVERRIDES + (_OPEN_OVERRIDES if opening else ())
    return {**raw, **{key: extra_body[key] for key in keys if key in extra_body}}


def _clamped(raw: Plain, spelling: str) -> float | UnsetType:
    value = number(raw, spelling)
    return UNSET if value is UNSET or value is None else max(0.0, value)


def _clamped_ms(raw: Plain, spelling: str) -> int | UnsetType:
    value = _clamped(raw, spelling)
    return UNSET if value is UNSET else int(min(value, 2.0**53))


def _extra(raw: Plain) -> Plain:
    """What the echo carries beside the session's own keys: all else the client sent, except ``extra_body``."""
    extra = {key: value for key, value in raw.items() if key not in _OWN_KEYS and key != "extra_body"}
    ref_audio = extra.get("ref_audio")
    if isinstance(ref_audio, str) and len(ref_audio) > REF_AUDIO_ECHO_CHARS:
        del extra["ref_audio"]
    return extra


def _or_unset(value: _T | None) -> _T | UnsetType:
    return UNSET if value is None else value
