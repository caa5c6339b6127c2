"""What stock clients say, in the session's own terms.

A stock client relies on defaults the published contract does not have: 24 kHz, a detector that answers turns, an
``inf`` that is no number. These functions write them out, so that the session needs to know no dialect.
Source: docs/reference/dialects.md, "What is rewritten".
"""

from __future__ import annotations

from typing import TypeVar

from msgspec import UNSET, structs

from ..audio import PCM16, SPELLINGS
from ..commands import ClientEvent, Command, CommitInput, CreateResponse, UpdateSession
from ..loose_fields import at_path
from ..objects import Plain
from .names import STOCK
from .sessions import RATE_HZ
from .turn_taking import DEFAULT, KEPT_AS, asked_turn_taking

IDLE_TIMEOUT_S = 1_800
"""Stock clients send no heartbeat and may keep a quiet session open this long."""

SaidT = TypeVar("SaidT", bound=ClientEvent)

_PCM: Plain = {"type": "audio/pcm", "rate": RATE_HZ}
_FLAT_NAMES = {
    "audio.input.format": "input_audio_format",
    "audio.input.transcription": "input_audio_transcription",
    "audio.input.noise_reduction": "input_audio_noise_reduction",
    "audio.output.format": "output_audio_format",
    "audio.output.voice": "voice",
    "audio.output.speed": "speed",
    "output_modalities": "modalities",
    "max_response_output_tokens": "max_output_tokens",
}
"""Where stock clients write a setting → the name the session keeps it under. The former wins."""
_TURN_DETECTION = ("audio.input.turn_detection", "turn_detection")
_DROPPED = frozenset({"type", "object", "audio", "output_modalities", "max_response_output_tokens", "turn_detection"})


def opening_settings(dialect: str) -> Plain:
    """The settings of a session that a client of ``dialect`` opens without a word; for seed clients there are none."""
    if dialect not in STOCK:
        return {}
    return {
        "input_audio_format": dict(_PCM),
        "output_audio_format": dict(_PCM),
        "turn_detection": dict(DEFAULT),
        KEPT_AS: None,
        "idle_timeout_s": IDLE_TIMEOUT_S,
        "extra_body": {"auto_response": True},
    }


def rewrite_command(command: Command, dialect: str, *, opening: bool = False) -> Command:
    """``command`` as the session takes it; from a seed client it is the very same object.

    ``opening`` says that the command opens the session: the defaults of the dialect then lie under what it says.
    Never raises: what makes no sense stays as it is, to be refused where it is read.
    """
    if dialect not in STOCK:
        return command
    if isinstance(command, UpdateSession):
        return _changed(command, session=stock_settings(command.session, dialect, opening=opening))
    if isinstance(command, CommitInput) and command.is_speech is UNSET:
        # A stock client commits what it means to: it is an item even when it is very quiet.
        return _changed(command, is_speech=True)
    if isinstance(command, CreateResponse) and command.response is not UNSET:
        return _changed(command, response=_response_options(command.response))
    return command


def stock_settings(session: Plain, dialect: str, *, opening: bool) -> Plain:
    """The settings of a ``session.update`` under the names the session keeps them by.

    Nested and flat spellings may be mixed; what is not said is left out, what is ``null`` stays ``null``. The model
    is chosen when the session opens: clients that repeat the name they are configured with mean no change.
    """
    settings = {key: value for key, value in session.items() if key not in _DROPPED}
    for spelling, name in _FLAT_NAMES.items():
        value = at_path(session, spelling)
        if value is not UNSET:
            settings[name] = value
    for name in ("input_audio_format", "output_audio_format"):
        if name in settings:
            settings[name] = _with_rate(settings[name])
    if not opening:
        settings.pop("model", None)
    answers: bool | None = None
    for spelling in _TURN_DETECTION:
        wanted = at_path(session, spelling)
        if wanted is not UNSET:
            changes, answers = asked_turn_taking(wanted)
            settings.update(changes)
            break
    extra_body = settings.get("extra_body")
    if answers is not None and not (isinstance(extra_body, dict) and "auto_response" in extra_body):
        settings["extra_body"] = {**(extra_body if isinstance(extra_body, dict) else {}), "auto_response": answers}
    return _under(opening_settings(dialect), settings) if opening else settings


def _under(defaults: Plain, settings: Plain) -> Plain:
    """``settings``, with ``defaults`` where they say nothing."""
    merged = {**defaults, **settings}
    base, said = defaults.get("extra_body"), settings.get("extra_body")
    if isinstance(base, dict) and isinstance(said, dict):
        merged["extra_body"] = {**base, **said}
    return merged


def _with_rate(declared: object) -> object:
    """A PCM format without a rate is one of 24 kHz: the session itself would take it for 16 kHz."""
    name = declared.get("type") if isinstance(declared, dict) else declared
    if not isinstance(name, str) or SPELLINGS.get(name.strip().lower()) != PCM16:
        return declared
    if isinstance(declared, dict):
        named = any(declared.get(key) is not None for key in ("rate", "sample_rate_hz", "sample_rate"))
        return declared if named else {**declared, "rate": RATE_HZ}
    return {"type": declared, "rate": RATE_HZ}


def _response_options(options: Plain) -> Plain:
    """Options for one answer, without those that only repeat a default or pick one of OpenAI's voices."""
    kept = {key: value for key, value in options.items() if key not in ("voice", "audio")}
    if kept.get("tool_choice") == "auto":
        del kept["tool_choice"]
    if kept.get("tools") == []:
        del kept["tools"]
    return kept


def _changed(command: SaidT, **fields: object) -> SaidT:
    return structs.replace(command, **fields)
