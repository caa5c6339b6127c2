"""Reads a model's options, text to text, into a frozen dataclass: unknown names and bad values are refused by name."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from typing import Any, TypeVar

T = TypeVar("T")

_TRUE, _FALSE = {"1", "true", "yes", "on"}, {"0", "false", "no", "off"}


def read_options(kind: type[T], options: Mapping[str, str], model: str) -> T:
    """An instance of the dataclass ``kind``, fields named in ``options`` set from their text, others by default.

    ``bool`` accepts 1/0, true/false, yes/no, on/off; an ``| None`` field takes ``none``.
    Raises: ValueError naming the model, the option and what it may be.
    """
    hints = typing.get_type_hints(kind)
    unknown = sorted(set(options) - set(hints))
    if unknown:
        raise ValueError(f"model {model}: unknown option {unknown[0]!r}; it has {', '.join(sorted(hints))}")
    found = {name: _value(model, name, hints[name], text) for name, text in options.items()}
    return kind(**found)


def _value(model: str, name: str, hint: Any, text: str) -> Any:
    kinds = typing.get_args(hint) or (hint,)
    if type(None) in kinds and text.strip().lower() in {"none", ""}:
        return None
    kind = next(k for k in kinds if k is not type(None))
    try:
        if kind is bool:
            word = text.strip().lower()
            if word not in _TRUE | _FALSE:
                raise ValueError(text)
            return word in _TRUE
        return kind(text)
    except ValueError as error:
        raise ValueError(f"model {model}: option {name} is {text!r}, which is no {kind.__name__}") from error
