"""The worked examples of the API as tests use them: client ones to send, server ones to compare a live frame with.

An example is named by its event and its number among the examples of that event: ``("conversation.item.added", 2)``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Wire = dict[str, Any]

EXAMPLES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "protocol" / "fixtures" / "seed_examples.json").read_text()
)
"""Each with ``direction`` (``client`` or ``server``), ``section`` and ``event``, in the order of the API's text."""

ELIDED = "…"
"""Marks a text that was shortened in print: only its type counts."""

VOCABULARY = frozenset(
    {
        *("type", "object", "role", "status", "format", "reason", "action", "policy", "state", "turn_state", "code"),
        *("param", "url", "backend", "overlap_policy", "playback_commit_policy", "implementation_level"),
        *("response_format", "input_audio_format", "output_audio_format", "content_index", "output_index", "truncate"),
        *("history_committed", "model_speak", "end_of_turn", "buffer_audio", "defer_runtime_append", "force_listen"),
        "response_create_deferred",
    }
)
"""Keys whose values are words of the API: a live frame has the very same ones."""


def numbered(direction: str) -> dict[tuple[str, int], Wire]:
    """Every example of one direction by its name."""
    found: dict[tuple[str, int], Wire] = {}
    for row in EXAMPLES:
        if row["direction"] == direction:
            name = row["event"]["type"]
            found[name, sum(known == name for known, _ in found) + 1] = row["event"]
    return found


CLIENT = numbered("client")
SERVER = numbered("server")


def said(name: str, number: int = 1, /, **changes: Any) -> Wire:
    """A client example with some top-level fields changed, ready to send. Raises: KeyError if there is none."""
    return {**CLIENT[name, number], **changes}


def differences(frame: Wire, name: str, number: int = 1, /, *, loose: Iterable[str] = ()) -> list[str]:
    """Where a live frame falls short of a server example; empty when it has all of it.

    Every key of the example is there with the same JSON type, words of the API with the same value, ``null`` as
    ``null``, an empty list empty; what print left out is not looked for. ``loose`` names dotted paths that the
    situation decides: there only the key must exist.
    """
    return [*_differ(SERVER[name, number], frame, "", frozenset(loose))]


def assert_shows(frame: Wire, name: str, number: int = 1, /, *, loose: Iterable[str] = ()) -> None:
    """``frame`` has all that the server example has. Raises: AssertionError with every difference and the frame."""
    wrong = differences(frame, name, number, loose=loose)
    assert not wrong, f"{name} #{number}: {'; '.join(wrong)}\nlive: {json.dumps(frame)[:2000]}"


def _differ(expected: Any, live: Any, path: str, loose: frozenset[str]) -> Iterable[str]:
    if path in loose:
        return
    if _kind(expected) != _kind(live) and not (_kind(expected) == "number" and _kind(live) == "integer"):
        yield f"{path}: {_kind(live)} instead of {_kind(expected)}"
    elif isinstance(expected, dict):
        for key, value in expected.items():
            inner = f"{path}.{key}".lstrip(".")
            if key not in live:
                yield f"{inner}: missing"
            else:
                yield from _differ(value, live[key], inner, loose)
    elif isinstance(expected, list):
        if len(live) < len(expected) or (live and not expected):
            yield f"{path}: {len(live)} entries instead of {len(expected)}"
        for index, (one, other) in enumerate(zip(expected, live, strict=False)):
            yield from _differ(one, other, f"{path}[{index}]", loose)
    elif path.rpartition(".")[2] in VOCABULARY and ELIDED not in str(expected) and expected != live:
        yield f"{path}: {live!r} instead of {expected!r}"


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"
