"""Says a tool's output aloud: JSON of any shape as one or two plain sentences."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from typing import Any

from .numerals import say_number

_PLAIN_KEYS = ("answer", "result", "text", "message", "output", "response", "summary", "content")
_FINE_KEYS = frozenset({"ok", "success", "done", "status"})
MOST_FIELDS = 6
MOST_ENTRIES = 5
LONGEST = 600


def say_output(output: str) -> str:
    """A spoken reading of ``output``; never empty. What is no JSON is said as it stands, cut at 600 characters."""
    try:
        value = json.loads(output)
    except ValueError:
        value = output
    return _sentence(_told(value))


def _told(value: Any) -> str:
    match value:
        case dict() if value.get("error"):
            return f"That did not work: {_phrase(value['error'])}"
        case dict():
            return _fields(value)
        case list() if not value:
            return "I found nothing"
        case list():
            entries = [_phrase(entry) for entry in value[:MOST_ENTRIES]]
            more = f", and {len(value) - MOST_ENTRIES} more" if len(value) > MOST_ENTRIES else ""
            return f"I found {_joined(entries) if not more else ', '.join(entries)}{more}"
        case None | True:
            return "Done"
        case False:
            return "That did not work"
        case int() | float():
            return f"The answer is {_phrase(value)}"
    return str(value).strip() or "Done"


def _fields(value: dict[str, Any]) -> str:
    plain = next((value[key] for key in _PLAIN_KEYS if isinstance(value.get(key), str) and value[key].strip()), None)
    if plain is not None:
        return str(plain).strip()
    told = {key: entry for key, entry in value.items() if entry is not None and key not in _FINE_KEYS}
    if not told:
        failed = any(value.get(key) is False for key in _FINE_KEYS)
        return "That did not work" if failed else "Done"
    parts = [f"the {_words(key)} is {_phrase(entry)}" for key, entry in list(told.items())[:MOST_FIELDS]]
    return _joined(parts)


def _phrase(value: Any) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case int() | float():
            return say_number(Fraction(str(value)))
        case dict():
            inner = [f"{_words(key)} {_phrase(entry)}" for key, entry in list(value.items())[:MOST_FIELDS]]
            return _joined(inner) or "nothing"
        case list():
            return _joined([_phrase(entry) for entry in value[:MOST_ENTRIES]]) or "nothing"
    return str(value).strip() or "nothing"


def _words(key: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[_\-.]+", " ", key).strip().lower()


def _joined(parts: list[str]) -> str:
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


def _sentence(text: str) -> str:
    text = " ".join(text.split())
    if len(text) > LONGEST:
        text = text[:LONGEST].rsplit(" ", 1)[0] + " …"
    text = text[0].upper() + text[1:]
    return text if text[-1] in ".!?…" else f"{text}."
