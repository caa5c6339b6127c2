"""The script a scripted model plays: its format, read strictly, so that a mistyped test fails where it is written.

A script is JSON: a list of steps, or ``{"steps": [...]}``. Each step says when it runs and what happens then::

    [{"on": "open", "do": [{"text": "Hello."}, {"finish": true}]},
     {"on": "end_turn", "transcript": "what is the weather",
      "do": [{"audio_ms": 1000, "text": "It is sunny.", "tone_hz": 440}, {"finish": true}]},
     {"on": "audio_ms", "at": 2500, "do": [{"interrupt": "barge_in"}]}]

**When** (``on``): ``open``; ``end_turn`` (a commit); ``generate`` (an explicit response request); ``tool_output``;
``interrupt``; ``reset_input``; ``audio_ms`` with ``at``, the cumulative milliseconds of caller audio (also spelled
``{"on": {"audio_ms": 2500}}``). Each event runs the first step of its kind that has not run yet; a step with
``"every": true`` is never used up. ``end_turn`` first reports the turn with the step's ``transcript`` (default ``""``);
with no step left the model listens. ``respond: false`` on a commit skips the step's speaking.

**What** (``do``, in order):

====================================  =========================================================================
``{"listen": "model_listen"}``        decide to listen, with this reason
``{"speak": true}``                   begin an answer; implied by the first ``audio_ms`` or ``text``
``{"audio_ms": 1000, ...}``           tone; ``text`` (""), ``tone_hz`` (440), ``chunk_ms`` (160), ``pace`` "real"/"fast"
                                      ``endless``: again and again, in real time, until it is cut
``{"text": "..."}``                   a text-only piece
``{"finish": true}``                  complete the answer; an answer nobody finishes stays open
``{"function_call": {...}}``          ``name``, ``arguments`` (object or text), ``call_id``; a missing one stays missing
``{"fail": {...}}``                   ``code`` ("response_error"), ``message``, ``fatal`` (false)
``{"measure": {"0": {...}}}``         what each stage of the model did for the answer, see ``StageMetrics``
``{"interrupt": "barge_in"}``         cut the answer that is being given, by the model's own decision
``{"heard": "transcript"}``           the model ended the caller's turn itself; or a map: ``transcript``, ``audio_ms``
``{"heard_speech": true}``            the caller began to speak now (or at the given millisecond)
``{"heard_speech_end": true}``        the caller stopped now; ``"noise"`` instead of true: nothing comes of it
``{"wait_ms": 100}``                  wait on the clock
``{"wait_audio_ms": 3000}``           wait until so much caller audio has arrived since the session opened
====================================  =========================================================================

The words of ``text`` ride on the chunk they begin in, spread evenly over the audio; where only text is wanted they are
written instead. A step that speaks waits for the speaking step before it, and goes on with an answer left open.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from duplex_es.model import StageMetrics

EVENTS = ("open", "end_turn", "generate", "tool_output", "interrupt", "reset_input", "audio_ms")

_ACTIONS: dict[str, tuple[type, ...]] = {
    "listen": (str,),
    "speak": (bool,),
    "audio_ms": (int,),
    "text": (str,),
    "finish": (bool,),
    "function_call": (dict,),
    "fail": (dict,),
    "measure": (dict,),
    "interrupt": (str,),
    "heard": (str, dict),
    "heard_speech": (bool, int),
    "heard_speech_end": (bool, int, str),
    "wait_ms": (int, float),
    "wait_audio_ms": (int,),
}
_AUDIO_KEYS: dict[str, tuple[type, ...]] = {
    "audio_ms": (int,),
    "text": (str,),
    "tone_hz": (int, float),
    "chunk_ms": (int,),
    "pace": (str,),
    "endless": (bool,),
}
_INNER_KEYS = {
    "function_call": {"name", "arguments", "call_id"},
    "fail": {"code", "message", "fatal"},
    "heard": {"transcript", "audio_ms"},
}

DEFAULT_SCRIPT: list[dict[str, Any]] = [
    {
        "on": event,
        "every": True,
        "do": [{"audio_ms": 600, "text": "This is a scripted answer."}, {"finish": True}],
    }
    for event in ("end_turn", "generate", "tool_output")
]
"""What is played when nobody gives a script: every turn gets the same short answer."""


class BadScript(ValueError):
    """The script cannot be played; the message names the step and the field."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step: when it runs, and its actions, each a checked map with one verb."""

    on: str
    do: tuple[Mapping[str, Any], ...]
    at_ms: int = 0
    transcript: str = ""
    every: bool = False


def read_script(source: object) -> tuple[Step, ...]:
    """A script from its JSON value, its JSON text, or the path of a file holding it. Raises: BadScript."""
    if isinstance(source, str):
        source = _parse(source)
    if isinstance(source, Mapping):
        source = source.get("steps")
    if not isinstance(source, list):
        raise BadScript('a script is a list of steps, or {"steps": [...]}')
    return tuple(_step(number, entry) for number, entry in enumerate(source))


def _parse(text: str) -> object:
    if not text.lstrip().startswith(("[", "{")):
        try:
            text = Path(text).read_text()
        except OSError as error:
            raise BadScript(f"no script file: {error}") from error
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise BadScript(f"the script is no JSON: {error}") from error


def _step(number: int, entry: object) -> Step:
    where = f"step {number}"
    if not isinstance(entry, dict):
        raise BadScript(f"{where} is no map")
    unknown = sorted(set(entry) - {"on", "at", "transcript", "every", "do"})
    if unknown:
        raise BadScript(f"{where}: unknown field {unknown[0]!r}")
    on, at = entry.get("on"), entry.get("at", 0)
    if isinstance(on, dict) and set(on) == {"audio_ms"}:
        at = on["audio_ms"]
        on = "audio_ms"
    if on not in EVENTS:
        raise BadScript(f"{where}: on is {on!r}; it is one of {', '.join(EVENTS)}")
    if not isinstance(at, int) or (on == "audio_ms" and at <= 0):
        raise BadScript(f"{where}: at is {at!r}; audio_ms needs a whole number of milliseconds above 0")
    do = entry.get("do", [])
    if not isinstance(do, list):
        raise BadScript(f"{where}: do is no list")
    return Step(
        on=on,
        at_ms=at,
        transcript=str(entry.get("transcript", "")),
        every=entry.get("every") is True,
        do=tuple(_action(f"{where}, action {index}", action) for index, action in enumerate(do)),
    )


def _action(where: str, action: object) -> Mapping[str, Any]:
    if not isinstance(action, dict) or not action:
        raise BadScript(f"{where} is no map")
    if "audio_ms" in action:
        allowed = _AUDIO_KEYS
    elif len(action) == 1:
        allowed = _ACTIONS
    else:
        raise BadScript(f"{where} has several verbs: {', '.join(sorted(action))}")
    verb: dict[str, Any] = dict(action)
    for key, value in verb.items():
        if key not in allowed:
            raise BadScript(f"{where}: unknown {key!r}; it is one of {', '.join(sorted(allowed))}")
        if not isinstance(value, allowed[key]):
            raise BadScript(f"{where}: {key} is {value!r}")
        inner = _INNER_KEYS.get(key)
        if inner and isinstance(value, dict) and set(value) - inner:
            raise BadScript(f"{where}: {key} has an unknown field; it has {', '.join(sorted(inner))}")
    if "measure" in verb:
        verb["measure"] = _stages(where, verb["measure"])
    if verb.get("pace", "real") not in {"real", "fast"}:
        raise BadScript(f"{where}: pace is {verb['pace']!r}; it is real or fast")
    if min(verb.get("audio_ms", 1), verb.get("chunk_ms", 1)) < 1:
        raise BadScript(f"{where}: audio_ms and chunk_ms are at least 1")
    return verb


def _stages(where: str, told: dict[str, Any]) -> dict[str, StageMetrics]:
    for stage, figures in told.items():
        unknown = set(figures) - set(StageMetrics.__struct_fields__) if isinstance(figures, dict) else ()
        if unknown:
            known = ", ".join(StageMetrics.__struct_fields__)
            raise BadScript(f"{where}: measure, stage {stage}, has an unknown field {min(unknown)!r}; it has {known}")
    try:
        return msgspec.convert(told, dict[str, StageMetrics])
    except msgspec.ValidationError as error:
        raise BadScript(f"{where}: measure cannot be read: {error}") from error
