"""A bridged session against this very service: whatever dies, and whenever, nothing is said twice or left out."""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from duplex_es.model import Model
from duplex_es.protocol import CommitInput, ContentPart, CreateItem, CreateResponse, Item
from tests.support.calls import Caller
from tests.support.realtime_backend import realtime_backend
from tests.workers.test_actor_continues import Call, Talk
from workers.models.bridge import BridgeModel
from workers.models.echo import EchoModel
from workers.models.scripted import ScriptedModel

pytestmark = [pytest.mark.unit, pytest.mark.timeout(240)]

NOISE = np.random.default_rng(3).integers(-9_000, 9_000, 12_000, dtype="<i2").tobytes()
SCRIPT = [
    {
        "on": "end_turn",
        "transcript": "hi",
        "do": [
            {"audio_ms": 330, "text": "Well, let me see. "},
            {"function_call": {"name": "look", "arguments": {"a": 1}, "call_id": "call_1"}},
            {"audio_ms": 250, "text": "Here it is. "},
            {"text": "Written."},
            {"finish": True},
        ],
    }
]


@pytest.fixture
def secret_file(tmp_path: Path) -> str:
    path = tmp_path / "bridge.key"
    path.write_bytes(base64.b64encode(secrets.token_bytes(32)))
    return str(path)


def echo() -> Model:
    return EchoModel({"lead_ms": "none"})


def scripted() -> Model:
    return ScriptedModel({"lead_ms": "none", "chunk_ms": "100"})


async def speak(caller: Caller) -> None:
    await caller.append(*(NOISE[at : at + 640] for at in range(0, len(NOISE), 640)), sample_rate_hz=16_000)
    await caller.say(CommitInput())


async def type_words(caller: Caller) -> None:
    content = [ContentPart(type="input_text", text="one two three")]
    await caller.say(CreateItem(item=Item(type="message", role="user", content=content)), CreateResponse())


CALLS: dict[str, tuple[Callable[[], Model], Talk, int, dict[str, Any]]] = {
    "echo": (echo, speak, 1, {}),
    "words": (echo, type_words, 1, {}),
    "script": (scripted, speak, 2, {"extra_body": {"script": SCRIPT}}),
}


def bridge(url: str, model: str, secret_file: str | None, **options: str) -> BridgeModel:
    told = {"secret_file": secret_file} if secret_file else {}
    return BridgeModel({"url": url, "model": model, "resume_s": "2", **told, **options})


def essence(call: Call) -> list[tuple[str, Any]]:
    """What a client makes of it: sound and words of an answer are one whatever the pieces."""
    return [(status, None) for status in call.statuses] + [("sound", call.sound), ("words", call.words)]


@pytest.mark.parametrize("name", CALLS)
async def test_a_worker_may_die_after_any_frame_of_an_answer(name: str, secret_file: str) -> None:
    make, talk, answers, session = CALLS[name]
    async with realtime_backend(make()) as there:
        url, model = there.url(), make().info.name

        async def work(call: Call) -> None:
            await call.work(bridge(url, model, secret_file))

        whole = await Call.open("vllm-omni", **session)
        await work(whole)
        await talk(whole.caller)
        await whole.ended(answers)
        assert whole.sound
        kinds = [frame["type"] for frame in whole.shown]
        first = kinds.index("conversation.item.added") + 1
        for last in range(first, len(kinds) + 1):
            call = await Call.open("vllm-omni", last=last, **session)
            await work(call)
            await talk(call.caller)
            await call.lose(next_last=None)
            await work(call)
            await call.ended(answers)
            assert essence(call) == essence(whole), f"after frame {last}: {kinds[last - 1]}"
            assert not call.caller.heard("error"), f"after frame {last}"
            assert sorted(frame["type"] for frame in call.shown) == sorted(kinds), f"after frame {last}"
