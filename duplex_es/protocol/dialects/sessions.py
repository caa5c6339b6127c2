"""The session object in the shapes stock clients validate, made from the public one."""

from __future__ import annotations

from ..audio import G711_ALAW, G711_ULAW, PCM16, SPELLINGS
from ..objects import Plain
from .items import echoed
from .responses import output_modalities
from .turn_taking import shown_turn_taking

RATE_HZ = 24_000
"""What stock clients send and play."""

_FORMATS = {PCM16: "audio/pcm", G711_ULAW: "audio/pcmu", G711_ALAW: "audio/pcma"}
_PASSED_ON = ("tracing", "prompt", "include", "truncation", "reasoning", "parallel_tool_calls", "expires_at")
"""Settings that are stored for the client and shown as they are; absent ones are left out."""


def ga_session(session: Plain) -> Plain:
    """The ``realtime`` session object: formats and voice under ``audio``, one kind of output, no key of this service.

    ``turn_detection`` is ``null`` where turns are the client's to make; everything else that is not set is left out.
    """
    heard: Plain = {"format": _format(session, "input"), "turn_detection": shown_turn_taking(session)}
    for key, source in (
        ("transcription", "input_audio_transcription"),
        ("noise_reduction", "input_audio_noise_reduction"),
    ):
        if isinstance(session.get(source), dict):
            heard[key] = session[source]
    spoken: Plain = {"format": _format(session, "output")}
    for key in ("voice", "speed"):
        if session.get(key) is not None:
            spoken[key] = session[key]
    shown: Plain = {
        "type": "realtime",
        "object": "realtime.session",
        **_shared(session),
        "output_modalities": output_modalities(_names(session.get("modalities"))),
        "max_output_tokens": _token_limit(session),
        "audio": {"input": heard, "output": spoken},
    }
    return shown | {key: session[key] for key in _PASSED_ON if session.get(key) is not None}


def beta_session(session: Plain) -> Plain:
    """The session object of the beta: flat, formats by name."""
    shown: Plain = {
        "object": "realtime.session",
        **_shared(session),
        "modalities": _names(session.get("modalities")) or ["text", "audio"],
        "input_audio_format": _encoding(session, "input"),
        "output_audio_format": _encoding(session, "output"),
        "turn_detection": shown_turn_taking(session),
        "max_response_output_tokens": _token_limit(session),
    }
    for key in ("voice", "speed", "temperature", "tracing", "expires_at"):
        if session.get(key) is not None:
            shown[key] = session[key]
    for key in ("input_audio_transcription", "input_audio_noise_reduction"):
        if isinstance(session.get(key), dict):
            shown[key] = session[key]
    return shown


def _shared(session: Plain) -> Plain:
    instructions, model, tools = session.get("instructions"), session.get("model"), session.get("tools")
    shown: Plain = {"id": session.get("id") or ""}
    if isinstance(model, str):
        shown["model"] = model
    shown["instructions"] = echoed(instructions) if isinstance(instructions, str) else ""
    shown["tools"] = tools if isinstance(tools, list) else []
    shown["tool_choice"] = session.get("tool_choice") or "auto"
    return shown


def _token_limit(session: Plain) -> object:
    limit = session.get("max_tokens")
    return limit if isinstance(limit, int) else "inf"


def _names(value: object) -> list[str]:
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []


def _block(session: Plain, side: str) -> Plain:
    """``audio.input`` or ``audio.output`` of the public object, where the rates stand."""
    audio = session.get("audio")
    block = audio.get(side) if isinstance(audio, dict) else None
    return block if isinstance(block, dict) else {}


def _encoding(session: Plain, side: str) -> str:
    named = session.get(f"{side}_audio_format")
    if isinstance(named, dict):
        named = named.get("type")
    if not isinstance(named, str):
        format_ = _block(session, side).get("format")
        named = format_.get("type") if isinstance(format_, dict) else format_
    encoding = SPELLINGS.get(named.strip().lower()) if isinstance(named, str) else None
    return encoding if encoding in _FORMATS else PCM16


def _format(session: Plain, side: str) -> Plain:
    """The format object; 8 kHz goes without saying for G.711."""
    encoding = _encoding(session, side)
    shown: Plain = {"type": _FORMATS[encoding]}
    if encoding != PCM16:
        return shown
    format_ = _block(session, side).get("format")
    rate = format_.get("rate") if isinstance(format_, dict) else None
    return shown | {"rate": rate if isinstance(rate, int) else RATE_HZ}
