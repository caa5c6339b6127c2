"""The prompt of the small language model, and what is kept of its answers. The network itself is optional."""

from __future__ import annotations

import importlib
import importlib.util
import itertools
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from workers.models.cascade.dialogue.scene import Counted, Line, Scene
from workers.models.cascade.dialogue.smollm import SmolLm, find_weights, transcript_of, whole_sentences

pytestmark = pytest.mark.unit


def test_the_prompt_ends_where_the_answer_begins() -> None:
    past = [Line("user", "My name is\nMartin."), Line("assistant", "Hello."), Line("assistant", "{}", call_id="c")]
    prompt = transcript_of(Scene("Who am I?", past))
    assert prompt.endswith("User: My name is Martin.\nAssistant: Hello.\nUser: Who am I?\nAssistant:")


def test_prompts_grow_at_their_end_most_of_the_time() -> None:
    lines = [Line("user" if n % 2 == 0 else "assistant", f"line {n}") for n in range(60)]
    prompts = [transcript_of(Scene(lines[n].text, lines[:n])) for n in range(0, 60, 2)]
    grown = sum(after.startswith(before) for before, after in itertools.pairwise(prompts))
    assert grown >= len(prompts) * 0.7
    assert max(len(prompt) for prompt in prompts) < 2000


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (" The sky is blue.", "The sky is blue."),
        ("One. Two and", "One."),
        ("never ends", ""),
        ("Martin, Martin, Martin, Martin, Martin, Martin, Martin, Martin.", ""),
        ("", ""),
    ],
)
def test_only_whole_sentences_are_kept(text: str, kept: str) -> None:
    assert whole_sentences(text) == kept


def test_without_its_packages_there_is_no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    assert find_weights() is None


def test_the_engine_is_asked_for_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []

    class Server:
        def __init__(self, params: Any) -> None:
            assert params.api_keys and params.model.path == "weights.gguf"

        def handle_completions(self, request: dict[str, Any]) -> dict[str, Any]:
            asked.append(request)
            usage = {"prompt_tokens": 40, "completion_tokens": 3}
            return {"choices": [{"text": " Blue. And"}], "usage": usage}

    def params() -> Any:
        return SimpleNamespace(model=SimpleNamespace(), cpuparams=SimpleNamespace(), cpuparams_batch=SimpleNamespace())

    engine = SimpleNamespace(CommonParams=params, Server=Server)
    monkeypatch.setattr(importlib, "import_module", lambda _name: engine)
    model = SmolLm(Path("weights.gguf"))
    model.warm_up()
    assert model.reply(Scene("What color is the sky?", max_tokens=5)) == ("Blue.", Counted(40, 3))
    assert (asked[-1]["max_tokens"], asked[-1]["temperature"], asked[-1]["stop"][0]) == (5, 0.0, "\n")
