"""Reading settings the lenient way: a field under any of its spellings, the wrong type as if it were not there.

A *spelling* is a dotted path: ``audio.output.voice``. ``UNSET`` is "not said", ``None`` is an explicit ``null``.
"""

from __future__ import annotations

import math

from msgspec import UNSET, UnsetType

from .objects import Plain


def at_path(raw: Plain, spelling: str) -> object:
    """The value at a dotted path, ``UNSET`` when some step is missing or no object."""
    value: object = raw
    for key in spelling.split("."):
        if not isinstance(value, dict) or key not in value:
            return UNSET
        value = value[key]
    return value


def first_said(raw: Plain, *spellings: str) -> object:
    """The first spelling that says something; ``None`` if one only says ``null``, else ``UNSET``."""
    values = [at_path(raw, spelling) for spelling in spellings]
    said = next((value for value in values if value is not UNSET and value is not None), UNSET)
    return None if said is UNSET and None in values else said


def is_number(value: object) -> bool:
    """Whether this is a finite JSON number; ``true`` is none."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def text(raw: Plain, *spellings: str) -> str | UnsetType | None:
    """A string."""
    value = first_said(raw, *spellings)
    return value if isinstance(value, str) or value is None else UNSET


def number(raw: Plain, *spellings: str) -> float | UnsetType | None:
    """A number, as a double."""
    value = first_said(raw, *spellings)
    if isinstance(value, int | float) and is_number(value):
        return float(value)
    return None if value is None else UNSET


def mapping(raw: Plain, *spellings: str) -> Plain | UnsetType | None:
    """An object."""
    value = first_said(raw, *spellings)
    return value if isinstance(value, dict) or value is None else UNSET


def text_or_mapping(raw: Plain, *spellings: str) -> str | Plain | UnsetType | None:
    """A string or an object."""
    value = first_said(raw, *spellings)
    return value if isinstance(value, str | dict) or value is None else UNSET


def items(raw: Plain, *spellings: str) -> list[object] | UnsetType | None:
    """A list."""
    value = first_said(raw, *spellings)
    return value if isinstance(value, list) or value is None else UNSET


def mappings(raw: Plain, *spellings: str) -> list[Plain] | UnsetType | None:
    """A list of objects; entries that are none are left out."""
    value = first_said(raw, *spellings)
    if isinstance(value, list):
        return [entry for entry in value if isinstance(entry, dict)]
    return None if value is None else UNSET


def names(raw: Plain, *spellings: str) -> list[str] | UnsetType:
    """A list of strings that is not empty. Names are not checked; a list with anything else in it is not read."""
    value = first_said(raw, *spellings)
    if isinstance(value, list) and value and all(isinstance(name, str) for name in value):
        return list(value)
    return UNSET


def token_limit(raw: Plain, *spellings: str) -> int | UnsetType | None:
    """A positive integer; ``None`` for every other way of saying something, "without limit" among them."""
    value = first_said(raw, *spellings)
    if value is UNSET:
        return UNSET
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def choice(raw: Plain, spelling: str, allowed: tuple[str, ...], otherwise: str) -> str | UnsetType:
    """One of ``allowed``, trimmed and in lower case; an unknown name is ``otherwise``, a non-string is not read."""
    value = at_path(raw, spelling)
    if not isinstance(value, str):
        return UNSET
    name = value.strip().lower()
    return name if name in allowed else otherwise
