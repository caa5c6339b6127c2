"""A bridged session against this very service: whatever dies, and whenever, nothing is said twice or left out."""

from __future__ import annotations

import asyncio
import base64
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from duplex_es.log.memory import MemoryLog
from duplex_es.model import Model
from duplex_es.protocol import (
    CancelResponse,
    CloseSession,
    CommitInput,
    ContentPart,
    CreateItem,
    CreateResponse,
    Item,
    UpdateSession,
)
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
        # An append is whole or not there, and a decision is never spread over two.
        for last in sorted(seq for seq in await whole.boundaries() if seq >= first):
            call = await Call.open("vllm-omni", last=last, **session)
            await work(call)
            await talk(call.caller)
            await call.lose(next_last=None)
            await work(call)
            await call.ended(answers)
            assert essence(call) == essence(whole), f"after frame {last}: {kinds[last - 1]}"
            assert not call.caller.heard("error"), f"after frame {last}"
            assert sorted(frame["type"] for frame in call.shown) == sorted(kinds), f"after frame {last}"


async def until_answering(call: Call) -> None:
    await call.caller.hears("response.output_audio.delta")


def paced() -> Model:
    return EchoModel({"lead_ms": "100", "chunk_ms": "50"})


async def test_without_a_key_the_answer_ends_with_its_worker_and_the_call_goes_on() -> None:
    async with realtime_backend(paced()) as there:
        call = await Call.open("vllm-omni")
        await call.work(bridge(there.url(), "echo", None))
        await speak(call.caller)
        await until_answering(call)
        call.log.last = 0
        await call.lose(next_last=None)
        await call.work(bridge(there.url(), "echo", None))
        await call.caller.hears("response.done")
        assert call.statuses == ["failed"]
        await speak(call.caller)
        await call.ended(2)
        assert call.statuses == ["failed", "completed"]


async def test_a_connection_that_breaks_costs_nothing(secret_file: str) -> None:
    async with realtime_backend(paced()) as there:
        whole = await Call.open("vllm-omni")
        await whole.work(bridge(there.url(), "echo", secret_file))
        await speak(whole.caller)
        await whole.ended()
        call = await Call.open("vllm-omni")
        model = bridge(there.url(), "echo", secret_file)
        await call.work(model)
        await speak(call.caller)
        for _ in range(3):
            await call.caller.hears(
                "response.output_audio.delta", len(call.caller.heard("response.output_audio.delta")) + 1
            )
            await next(iter(model.sessions)).drop_line()
        await call.ended()
        assert essence(call) == essence(whole)
        assert not call.caller.heard("error")


async def test_a_server_that_is_gone_is_followed_by_the_next_and_the_client_is_told(secret_file: str) -> None:
    async with realtime_backend(paced()) as second:
        async with realtime_backend(paced()) as first:
            urls = f"{first.url()},{second.url()}"
            call = await Call.open("vllm-omni")
            await call.work(bridge(urls, "echo", secret_file, resume_s="0.2"))
            await speak(call.caller)
            await until_answering(call)
        await call.caller.hears("response.done")
        assert call.statuses == ["failed"]
        (told,) = call.caller.heard("error")
        assert told.error.code == "worker_lost"
        assert "lost its session" in told.error.message
        await type_words(call.caller)
        await call.ended(2)
        assert call.statuses == ["failed", "completed"]
        assert call.words.endswith("one two three")


async def test_an_interruption_stops_the_server_and_what_it_had_begun_is_not_heard(secret_file: str) -> None:
    async with realtime_backend(paced()) as there:
        call = await Call.open("vllm-omni")
        await call.work(bridge(there.url(), "echo", secret_file))
        await speak(call.caller)
        await until_answering(call)
        await call.caller.say(CancelResponse())
        await type_words(call.caller)
        await call.ended(2)
        assert call.statuses == ["cancelled", "completed"]
        assert call.words == "one two three"


async def test_a_call_is_answered_by_its_output(secret_file: str) -> None:
    script = [
        {
            "on": "end_turn",
            "do": [{"function_call": {"name": "look", "arguments": {}, "call_id": "call_1"}}, {"finish": True}],
        },
        {"on": "tool_output", "do": [{"audio_ms": 200, "text": "It is seven. "}, {"finish": True}]},
    ]
    async with realtime_backend(scripted()) as there:
        call = await Call.open("vllm-omni", extra_body={"script": script})
        await call.work(bridge(there.url(), "scripted", secret_file))
        await speak(call.caller)
        (done,) = await call.caller.hears("response.function_call_arguments.done")
        assert (done.name, done.call_id) == ("look", "call_1")
        output = Item(type="function_call_output", call_id="call_1", output="7")
        await call.caller.say(CreateItem(item=output))
        await call.caller.hears("response.output_audio_transcript.done")
        assert call.words == "It is seven. "


async def test_a_session_that_ends_here_ends_there(secret_file: str) -> None:
    log = MemoryLog()
    async with realtime_backend(echo(), log) as there:
        call = await Call.open("vllm-omni")
        await call.work(bridge(there.url(), "echo", secret_file))
        await call.caller.answer()
        await call.caller.say(CloseSession())
        await call.caller.ends("session_close")
        async with asyncio.timeout(30):
            while any(head.state != "closed" for head in await log.sessions()):
                await asyncio.sleep(0.01)


async def test_a_client_that_asks_later_for_what_stages_did_hears_those_of_the_server() -> None:
    done: list[dict[str, Any]] = [{"measure": {"0": {"num_tokens_out": 3}}}, {"audio_ms": 200, "text": "Yes."}]
    script = [{"on": "end_turn", "every": True, "transcript": "hi", "do": [*done, {"finish": True}]}]
    async with realtime_backend(scripted()) as there:
        call = await Call.open("vllm-omni", extra_body={"script": script})
        await call.work(bridge(there.url(), "scripted", None))
        await speak(call.caller)
        await call.caller.hears("rate_limits.updated")
        await call.caller.say(UpdateSession(session={"extra_body": {"return_stage_metrics": True}}))
        await call.caller.hears("session.updated", 2)
        await speak(call.caller)
        await call.ended(2)
        told = [frame["response"]["metadata"] for frame in call.shown if frame["type"] == "response.done"]
        assert "vllm_omni" not in told[0]
        assert told[1]["vllm_omni"] == {"stage_metrics": {"0": {"num_tokens_out": 3}}}
