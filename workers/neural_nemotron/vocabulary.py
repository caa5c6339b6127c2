"""Text to ids and back: the published tokenizer, or one of bytes for random weights."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

BOS, EOS, PAD = "<s>", "</s>", "<SPECIAL_12>"
CHANNEL = ("<SPECIAL_20>", "<SPECIAL_21>", "<SPECIAL_22>")
"""What opens a call, closes it, and ends what its tool gave."""
TOKENIZER_FILE = "tokenizer.json"


class VocabularyUnfit(ValueError):
    """A tokenizer without the tokens that the model is steered by; the message says which file and token."""


class Vocabulary(Protocol):
    """A tokenizer. Special tokens are written as they are: ``<SPECIAL_20>``."""

    size: int
    bos: int
    eos: int
    pad: int
    special: frozenset[int]

    def encode(self, text: str) -> list[int]:
        """The ids of ``text``; special tokens in it are one id each."""

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids; what is not whole yet ends in U+FFFD."""


def prompt_ids(vocabulary: Vocabulary, prompt: str) -> list[int]:
    """A system prompt as the model reads it; none for a prompt of nothing. Special tokens in it are broken up."""
    if not prompt.strip():
        return []
    plain = prompt.replace("<SPECIAL_", "< SPECIAL_").replace(BOS, "< s>").replace(EOS, "< /s>")
    return [vocabulary.bos, *vocabulary.encode(plain), vocabulary.eos]


class ByteVocabulary:
    """An id for each byte of UTF-8, behind 32 special ones; ids above them are nothing."""

    FIRST_BYTE = 32
    size = FIRST_BYTE + 256
    bos, eos, pad = 1, 2, 12
    special = frozenset(range(FIRST_BYTE))
    _NAMES = ("<unk>", BOS, EOS, *(f"<SPECIAL_{number}>" for number in range(3, FIRST_BYTE)))
    _MARKER = re.compile("(" + "|".join(map(re.escape, _NAMES)) + ")")

    def encode(self, text: str) -> list[int]:
        """See ``Vocabulary``."""
        found: list[int] = []
        for part in self._MARKER.split(text):
            if part in self._NAMES:
                found.append(self._NAMES.index(part))
            else:
                found += [self.FIRST_BYTE + byte for byte in part.encode()]
        return found

    def decode(self, ids: Sequence[int]) -> str:
        """See ``Vocabulary``."""
        parts = [
            self._NAMES[number].encode() if number < self.FIRST_BYTE else bytes([number - self.FIRST_BYTE])
            for number in ids
            if number < self.size
        ]
        return b"".join(parts).decode(errors="replace")


class PublishedVocabulary:
    """The tokenizer of a folder of published files. Raises: VocabularyUnfit, and as tokenizers do."""

    def __init__(self, folder: Path) -> None:
        from tokenizers import Tokenizer

        self._path = folder / TOKENIZER_FILE
        self._tokenizer: Any = Tokenizer.from_file(str(self._path))
        self.size = int(self._tokenizer.get_vocab_size(with_added_tokens=True))
        self.bos, self.eos, self.pad = (self._id(text) for text in (BOS, EOS, PAD))
        for text in CHANNEL:
            self._id(text)
        added = self._tokenizer.get_added_tokens_decoder()
        self.special = frozenset(number for number, token in added.items() if token.special)

    def _id(self, text: str) -> int:
        number = self._tokenizer.token_to_id(text)
        if number is None:
            raise VocabularyUnfit(f"{self._path} has no token {text}: is it that of this model?")
        return int(number)

    def encode(self, text: str) -> list[int]:
        """See ``Vocabulary``."""
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def decode(self, ids: Sequence[int]) -> str:
        """See ``Vocabulary``."""
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=False))
