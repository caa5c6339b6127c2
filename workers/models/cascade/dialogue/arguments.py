"""Reads one argument of a tool call out of what the caller said, as its JSON schema describes it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from .numerals import numbers_in

_PLACE = frozenset({"city", "location", "place", "town", "country", "where", "address", "region"})
_WHEN = frozenset({"date", "day", "when", "time"})
_TEXT = frozenset({"query", "q", "question", "text", "message", "prompt", "content", "input", "request"})
_PREPOSITIONS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(_PLACE, ("in", "for", "at", "near", "to")),
    **dict.fromkeys(("from", "origin", "source", "sender"), ("from",)),
    **dict.fromkeys(("to", "destination", "target", "recipient"), ("to", "for")),
    **dict.fromkeys(("topic", "subject", "about"), ("about", "on", "of")),
    **dict.fromkeys(("name", "title", "song", "label"), ("called", "named", "play", "for", "of")),
}
_ANY = ("for", "about", "in", "of", "to", "at", "on", "from", "called", "named", "with")
_STOPS = (
    "in|for|at|to|from|on|about|with|near|and|please|today|tomorrow|tonight|now|right now|this|next|called|named|saying"
    "|that"
)
_WEEKDAYS = "monday|tuesday|wednesday|thursday|friday|saturday|sunday"
_DAYS = re.compile(
    rf"\b(?:today|tomorrow|tonight|yesterday|this (?:morning|afternoon|evening|week|weekend)"
    rf"|(?:next |this )?(?:week|weekend|{_WEEKDAYS}))\b",
    re.IGNORECASE,
)
_CLOCK = re.compile(r"\b\d{1,2}(?::\d{2})?\s*(?:a\.?m\.?|p\.?m\.?)|\b\d{1,2}:\d{2}\b", re.IGNORECASE)
_YES = re.compile(r"\b(?:on|yes|true|enable|enabled|open|with)\b", re.IGNORECASE)
_NO = re.compile(r"\b(?:off|no|false|disable|disabled|close|without)\b", re.IGNORECASE)


def read_argument(
    name: str, schema: Mapping[str, object], said: str, taken: Sequence[str] = (), whole: str | None = None
) -> object | None:
    """The value of one argument, or ``None`` when it was not said.

    ``taken`` are values other arguments have already got. ``whole`` is what a free-text argument (query, message …)
    gets when nothing more exact is found: a required one takes the whole utterance.
    """
    choices = schema.get("enum")
    kind = schema.get("type")
    kind = next((k for k in kind if k != "null"), "string") if isinstance(kind, list) else kind
    value: object | None
    if isinstance(choices, list):
        value = next((choice for choice in choices if _says(said, str(choice))), None)
    elif kind in {"integer", "number"}:
        value = _number(kind == "integer", said, taken)
    elif kind == "boolean":
        value = False if _NO.search(said) else True if _YES.search(said) else None
    elif kind in {"string", None}:
        value = _string(name.lower(), said, taken, whole)
    else:
        value = None
    return schema.get("default") if value is None else value


def _says(said: str, choice: str) -> bool:
    words = re.sub(r"[_-]+", " ", choice)
    return re.search(rf"\b{re.escape(words)}s?\b", said, re.IGNORECASE) is not None


def _number(whole: bool, said: str, taken: Sequence[str]) -> int | float | None:
    free = list(taken)
    for number in numbers_in(said):
        value = int(number) if number.denominator == 1 else float(number)
        if str(value) in free:
            free.remove(str(value))
        elif not whole or isinstance(value, int):
            return value
    return None


def _string(name: str, said: str, taken: Sequence[str], whole: str | None) -> str | None:
    words = set(re.split(r"[_\-\s]+", name))
    if words & _WHEN:
        found = _DAYS.search(said) or _CLOCK.search(said)
        return found.group().strip() if found else None
    for word in sorted(words):
        if word in _PREPOSITIONS:
            return _after(_PREPOSITIONS[word], said, taken) or (_proper(said, taken) if word in _PLACE else None)
    if words & _TEXT:
        return _after(("that", "saying", "about", "for"), said, taken, to_the_end=True) or _clean(whole)
    return _after(_ANY, said, taken) or _proper(said, taken)


def _after(prepositions: tuple[str, ...], said: str, taken: Sequence[str], to_the_end: bool = False) -> str | None:
    """What follows the first of these prepositions that has something after it, up to the next one."""
    until = r"$" if to_the_end else rf"(?=\s+(?:{_STOPS})\b|[.,!?;]|$)"
    for preposition in prepositions:
        for match in re.finditer(rf"\b{preposition}\s+((?:the\s+)?\S.*?){until}", said.strip(), re.IGNORECASE):
            value = _clean(match.group(1))
            is_free = value and value not in taken and not any(str(number) in taken for number in numbers_in(value))
            if is_free and not _DAYS.fullmatch(value or ""):
                return value
    return None


def _proper(said: str, taken: Sequence[str]) -> str | None:
    """A run of capitalised words that does not begin the sentence: "Paris", "New York"."""
    for match in re.finditer(r"(?<=[\w,]\s)(?!I\b)([A-Z][\w'-]*(?:\s+[A-Z][\w'-]*)*)", said):
        value = match.group(1).removesuffix("'s")
        if value not in taken and not _DAYS.fullmatch(value):
            return value
    return None


def _clean(value: str | None) -> str | None:
    edges = ' .,!?;:"'
    text = re.sub(r"^the\s+", "", (value or "").strip(edges), flags=re.IGNORECASE)
    text = re.sub(r"\s+(?:please|today|tomorrow|tonight|now)$", "", text, flags=re.IGNORECASE).strip(edges)
    return text or None
