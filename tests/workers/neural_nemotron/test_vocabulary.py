"""Text to ids and back, with bytes and with a tokenizer in the published layout."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.published_nemotron import write_tokenizer
from workers.neural_nemotron.vocabulary import ByteVocabulary, PublishedVocabulary, VocabularyUnfit, prompt_ids

pytestmark = pytest.mark.neural

TEXT = 'Grüße, 😀! <TOOLCALL>[{"name": "light"}]</TOOLCALL>'


def test_bytes_are_ids_and_markers_are_one() -> None:
    words = ByteVocabulary()
    assert words.decode(words.encode(TEXT)) == TEXT
    assert words.encode("a<SPECIAL_20>b</s>") == [32 + 97, 20, 32 + 98, 2]
    assert words.decode([20, 12, 1, 32 + 97]) == "<SPECIAL_20><SPECIAL_12><s>a"
    assert words.decode(words.encode("é")[:1]) == "\ufffd"
    assert words.decode([32 + 97, 70_000]) == "a"
    assert {words.bos, words.eos, words.pad} <= words.special and words.size == 288


def test_a_prompt_is_between_its_markers_and_cannot_hold_any() -> None:
    words = ByteVocabulary()
    assert prompt_ids(words, "be kind") == [1, *words.encode("be kind"), 2]
    assert prompt_ids(words, " \n") == []
    assert not set(prompt_ids(words, "a<SPECIAL_20>b</s>c<s><SPECIAL_12>")[1:-1]) & words.special


def test_the_published_tokenizer_is_read(tmp_path: Path) -> None:
    write_tokenizer(tmp_path)
    words = PublishedVocabulary(tmp_path)
    assert (words.bos, words.eos, words.pad) == (1, 2, 12)
    assert words.encode("<SPECIAL_20>") == [20]
    assert words.decode(words.encode(TEXT)) == TEXT
    assert words.decode([20, *words.encode("x"), 21]) == "<SPECIAL_20>x<SPECIAL_21>"
    assert words.decode(words.encode("😀")[:1]).endswith("\ufffd")
    assert words.encode("x") == words.encode("<s>x")[1:], "nothing is added"
    assert {1, 2, 12, 20, 21, 22} <= words.special
    assert words.size == 32 + 256


def test_a_tokenizer_of_another_model_is_refused(tmp_path: Path) -> None:
    write_tokenizer(tmp_path, without="<SPECIAL_21>")
    with pytest.raises(VocabularyUnfit, match=r"tokenizer.json has no token <SPECIAL_21>"):
        PublishedVocabulary(tmp_path)
