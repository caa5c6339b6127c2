"""Text to ids and back: the published tokenizer, or a toy one for random weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from . import shapes


class Vocabulary(Protocol):
    """A tokenizer. ``tool_open`` and ``tool_close`` are the ids around a tool call, ``stops`` those that end a text."""

    tool_open: int
    tool_close: int
    stops: frozenset[int]

    def encode(self, text: str) -> list[int]:
        """The ids of plain text: what looks like a marker in it is text."""

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids; what is not whole yet ends in U+FFFD."""


class ToyVocabulary:
    """One id for each printable ASCII character; anything else is a question mark. Markers have no text."""

    tool_open, tool_close = shapes.TOOL_OPEN, shapes.TOOL_CLOSE
    stops = frozenset({shapes.IM_END})

    def encode(self, text: str) -> list[int]:
        """See ``Vocabulary``."""
        return [shapes.NEWLINE if char == "\n" else _place(char) for char in text]

    def decode(self, ids: Sequence[int]) -> str:
        """See ``Vocabulary``."""
        return "".join(chr(32 + number) for number in ids if number < shapes.CHARACTERS)


def _place(char: str) -> int:
    return ord(char) - 32 if 32 <= ord(char) < 32 + shapes.CHARACTERS else ord("?") - 32


class PublishedVocabulary:
    """The tokenizer of a folder of published files."""

    def __init__(self, folder: Path) -> None:
        """Raises: ValueError for a tokenizer without the markers that are needed."""
        from transformers import AutoTokenizer

        self._tokenizer: Any = AutoTokenizer.from_pretrained(folder)
        self.tool_open, self.tool_close = self._marker("<tool_call>"), self._marker("</tool_call>")
        self.stops = frozenset({self._marker("<|im_end|>"), self._marker("<|endoftext|>")})

    def _marker(self, text: str) -> int:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False)
        if len(ids) != 1:
            raise ValueError(f"the tokenizer has no marker {text}: are its files those of the model?")
        return ids[0]

    def encode(self, text: str) -> list[int]:
        """See ``Vocabulary``."""
        plain = text.replace("<|", "< |").replace("tool_call>", "tool_call >")
        ids: list[int] = self._tokenizer.encode(plain, add_special_tokens=False)
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """See ``Vocabulary``."""
        text: str = self._tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text
