"""The ids a model writes, as the text that is shown, the ids that are spoken, and the tools it calls."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from workers.engine.turns import Call

from .vocabulary import Vocabulary

TORN = "\ufffd"
LONGEST_TORN = 4
"""A character may be torn over so many ids; what is still torn after them is shown as it is."""


@dataclass(frozen=True, slots=True)
class Written:
    """Ids as they were drawn, and the text that each completed. Never changed: ``with_id`` gives the next one."""

    ids: tuple[int, ...] = ()
    texts: tuple[str, ...] = ()
    _torn: tuple[int, ...] = ()
    _is_call: bool = False

    def with_id(self, number: int, vocabulary: Vocabulary) -> Written:
        """One more. Tool calls and what ends the text have no text of their own."""
        ids = (*self.ids, number)
        is_call = (self._is_call or number == vocabulary.tool_open) and number != vocabulary.tool_close
        if is_call or number in vocabulary.stops or number == vocabulary.tool_close:
            return Written(ids, (*self.texts, ""), self._torn, is_call)
        torn = (*self._torn, number)
        text = vocabulary.decode(torn)
        if text.endswith(TORN) and len(torn) < LONGEST_TORN:
            return Written(ids, (*self.texts, ""), torn)
        return Written(ids, (*self.texts, text))

    def text(self, count: int | None = None) -> str:
        """What the first ``count`` ids say, or all of them."""
        return "".join(self.texts[:count])


def written(ids: Sequence[int], vocabulary: Vocabulary) -> Written:
    """All of ``ids``."""
    found = Written()
    for number in ids:
        found = found.with_id(number, vocabulary)
    return found


def spoken(ids: Sequence[int], vocabulary: Vocabulary) -> tuple[list[int], bool]:
    """The ids to be said aloud, and whether a tool was called behind them, so that no more will follow.

    That is all before the first call, but for the last id: it ends the text, or nobody knows yet that it does not.
    """
    said = list(ids[:-1])
    if vocabulary.tool_open in said:
        return said[: said.index(vocabulary.tool_open)], True
    return said, False


def calls(ids: Sequence[int], vocabulary: Vocabulary) -> tuple[Call, ...]:
    """The tools called, in order; what cannot be read is a call without a name."""
    found = []
    rest = list(ids)
    while vocabulary.tool_open in rest:
        rest = rest[rest.index(vocabulary.tool_open) + 1 :]
        end = rest.index(vocabulary.tool_close) if vocabulary.tool_close in rest else len(rest)
        found.append(call_of(vocabulary.decode([one for one in rest[:end] if one not in vocabulary.stops])))
        rest = rest[end:]
    return tuple(found)


def call_of(text: str) -> Call:
    """``{"name": …, "arguments": {…}}`` as a call."""
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return Call(None, text.strip())
    if not isinstance(said, dict) or not isinstance(said.get("name"), str):
        return Call(None, text.strip())
    arguments = said.get("arguments", {})
    return Call(said["name"], arguments if isinstance(arguments, str) else json.dumps(arguments))
