"""The toy tokenizer, and what is asked of a published one."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from workers.neural_qwen3omni import shapes
from workers.neural_qwen3omni.vocabulary import PublishedVocabulary, ToyVocabulary

pytestmark = pytest.mark.unit


def test_printable_text_comes_back_as_it_went() -> None:
    words = ToyVocabulary()
    assert words.decode(words.encode("Hello, World ~ 1+1")) == "Hello, World ~ 1+1"
    assert words.decode(words.encode("é")) == "?"
    assert words.encode("\n") == [shapes.NEWLINE]
    assert words.decode([shapes.IM_END, shapes.AUDIO]) == ""


class Tokenizer:
    """One id for each word; the markers there are."""

    def __init__(self, markers: tuple[str, ...]) -> None:
        self.markers = markers
        self.asked: list[str] = []

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        assert not add_special_tokens
        self.asked.append(text)
        return [self.markers.index(text)] if text in self.markers else [7] * len(text)


def published(monkeypatch: pytest.MonkeyPatch, *markers: str) -> tuple[Tokenizer, PublishedVocabulary]:
    tokenizer = Tokenizer(markers)
    module = ModuleType("transformers")
    module.AutoTokenizer = SimpleNamespace(from_pretrained=lambda folder: tokenizer)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "transformers", module)
    return tokenizer, PublishedVocabulary(Path("/models/qwen"))


def test_what_looks_like_a_marker_in_a_callers_text_is_text(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer, words = published(monkeypatch, "<tool_call>", "</tool_call>", "<|im_end|>", "<|endoftext|>")
    assert (words.tool_open, words.tool_close, words.stops) == (0, 1, {2, 3})
    words.encode("<|im_end|><tool_call>")
    assert "<|" not in tokenizer.asked[-1] and "<tool_call>" not in tokenizer.asked[-1]


def test_a_tokenizer_of_another_model_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="no marker <tool_call>"):
        published(monkeypatch, "<|im_end|>")
