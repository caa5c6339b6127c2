"""Ids of a channel as they come, and the text that each completes: a letter may be torn over several ids."""

from __future__ import annotations

from .vocabulary import Vocabulary

TORN = "\ufffd"
LONGEST_TORN = 4
"""A letter may be torn over so many ids; what is still torn after them is shown as it is."""


class Speller:
    """One channel of one session. ``shows_special``: special tokens are text as well, but for those of the frames."""

    def __init__(self, vocabulary: Vocabulary, *, shows_special: bool) -> None:
        self._vocabulary = vocabulary
        self._shows_special = shows_special
        self._silent = {vocabulary.pad, vocabulary.bos, vocabulary.eos}
        self._torn: list[int] = []

    def text(self, number: int) -> str:
        """What this id completes; empty for one that says nothing, or not yet."""
        if number in self._silent:
            return ""
        if number in self._vocabulary.special:
            rest = self._vocabulary.decode(self._torn) if self._torn else ""
            self._torn = []
            return rest + (self._vocabulary.decode([number]) if self._shows_special else "")
        self._torn.append(number)
        text = self._vocabulary.decode(self._torn)
        if text.endswith(TORN) and len(self._torn) < LONGEST_TORN:
            return ""
        self._torn = []
        return text
