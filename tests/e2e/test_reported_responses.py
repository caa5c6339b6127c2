"""The states of a response, as voice services are known to get them wrong; each test has the number of its case.

Requests and turns that collide, cancels of nothing, models that stay silent, settings that are not applied: all over
sockets, in the stock API where the case is about its clients.
"""

from __future__ import annotations

import asyncio
import base64
import json
import random
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import soxr
import websockets

from tests.support.calls import pcm16
from tests.support.chat_server import chat_server, text_chunk
from tests.support.examples import Wire
from tests.support.ordering import check_order
from tests.support.services import Deployment
from tests.support.talking import Caller, calling, conversing, question_pcm
from workers.models.scripted.profiles import PROFILES

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

TURN_BASED = PROFILES["qwen3_omni"].info.name
WORDS = "It is sunny, twenty-four degrees."
SPOKEN: Wire = {"audio_ms": 2_000, "text": WORDS}
ANSWER: list[Wire] = [SPOKEN, {"finish": True}]
QUICK: Wire = {"audio_ms": 320, "text": "Yes. ", "pace": "fast"}
ENDLESS: Wire = {"on": "generate", "every": True, "do": [{"audio_ms": 80, "text": "And on. ", "endless": True}]}
LATE_MS = 11_000
RUNS, CALLS = 1_000, 8

TALKING: list[Wire] = [
    {"on": "generate", "every": True, "do": ANSWER},
    {"on": "end_turn", "every": True, "transcript": "what is the weather", "do": ANSWER},
]
LATE: list[Wire] = [
    {"on": "generate", "every": True, "do": [{"wait_ms": LATE_MS}, {"audio_ms": 80, "endless": True}]},
]


@dataclass(frozen=True)
class Stock:
    """Where a stock client finds the models ``talking``, ``silent``, ``late``, and one that is asked by turns."""

    url: str

    @asynccontextmanager
    async def call(self, model: str, **session: Any) -> AsyncIterator[Caller]:
        """An open session, changed by ``session``; hung up at the end."""
        async with calling(self.url, query=f"?model={model}&dialect=ga") as caller:
            await caller.hear_until("session.created")
            if session:
                await caller.say(type="session.update", session={"type": "realtime", **session})
                await caller.hear_until("session.updated")
            yield caller
            with suppress(websockets.ConnectionClosed):
                await caller.say(type="session.close")
                async for frame in caller.socket:
                    caller.heard.append(json.loads(frame))


@pytest.fixture(scope="module")
def stock(scripted: Deployment) -> Iterator[Stock]:
    """Models whose scripts a stock client can reach: by the name of the model."""
    plays = {"talking": TALKING, "silent": [], "late": LATE}
    with ExitStack() as workers:
        for name, script in plays.items():
            options = (
                "--slots",
                "16",
                "--model-option",
                f"name={name}",
                "--model-option",
                f"script={json.dumps(script)}",
            )
            workers.enter_context(Deployment(scripted.redis_url, gateways=0, model="scripted", options=options))
        by_turns = ("--slots", "16", "--model-option", "profile=qwen3_omni", "--model-option", "name=by_turns")
        workers.enter_context(Deployment(scripted.redis_url, gateways=0, model="scripted", options=by_turns))
        yield Stock(scripted.urls[0])


@asynccontextmanager
async def call(deployment: Deployment, *steps: Wire, **session: Any) -> AsyncIterator[Caller]:
    """An open call to a model that plays ``steps`` when it is asked; whatever was heard was in order."""
    extra_body = {"auto_response": False, "script": list(steps)}
    async with conversing(deployment.urls[0], model="scripted", extra_body=extra_body, **session) as caller:
        yield caller
    check_order(caller.heard)


def question_24k() -> bytes:
    """The recorded question as stock clients send it."""
    samples = soxr.resample(np.frombuffer(question_pcm(), "<i2"), 16_000, 24_000)
    return bytes(samples.astype("<i2").tobytes())


async def ask(caller: Caller) -> None:
    """Say the question and wait until its end was noticed."""
    await caller.play(question_24k(), rate_hz=24_000, silence_ms=800, realtime=False)
    await caller.hear_until("input_audio_buffer.speech_stopped")


async def settle(caller: Caller) -> None:
    """Return once the session has answered something said now."""
    await caller.say(type="session.update", session={})
    await caller.hear_until("session.updated")


def heard(caller: Caller, kind: str) -> list[Wire]:
    return [frame for frame in caller.heard if frame["type"] == kind]


def kinds(frames: list[Wire]) -> list[str]:
    return [frame["type"] for frame in frames]


# -- requests that collide -------------------------------------------------------------------------------------------


async def test_two_requests_back_to_back_are_one_answer_and_an_error_that_names_the_second(stock: Stock):  # V12
    async with stock.call("talking") as caller:
        for event_id in ("evt_first", "evt_second"):
            await caller.say(type="response.create", event_id=event_id)
        done = await caller.hear_until("response.done")

    (error,) = [frame["error"] for frame in heard(caller, "error")]
    assert (error["code"], error["event_id"]) == ("conversation_already_has_active_response", "evt_second")
    assert len(heard(caller, "response.created")) == 1
    assert done["response"]["status"] == "completed"


async def test_a_detected_turn_and_a_request_in_the_same_moment_are_one_answer(stock: Stock):  # V13
    async with stock.call("by_turns") as caller:
        await caller.play(question_24k(), rate_hz=24_000, silence_ms=200, realtime=False)
        await caller.hear_until("input_audio_buffer.speech_started")
        # What ends the turn and the request travel together.
        await caller.play(bytes(2 * 24_000), rate_hz=24_000, realtime=False)
        await caller.say(type="response.create", event_id="evt_mine")
        await caller.hear_until("response.done")

    assert len(heard(caller, "input_audio_buffer.committed")) == len(heard(caller, "response.created")) == 1
    (error,) = [frame["error"] for frame in heard(caller, "error")]
    assert (error["code"], error["event_id"]) == ("conversation_already_has_active_response", "evt_mine")


# -- cancels ---------------------------------------------------------------------------------------------------------


async def test_a_cancel_with_nothing_to_cancel_leaves_the_connection_open(stock: Stock):  # V14
    async with stock.call("talking") as caller:
        await caller.say(type="response.cancel", event_id="evt_cancel")
        error = (await caller.hear_until("error"))["error"]
        await settle(caller)

    assert (error["code"], error["event_id"]) == ("response_cancel_not_active", "evt_cancel")


async def test_a_cancel_before_any_answer_of_an_unknown_one_and_twice_has_a_defined_code(scripted: Deployment):  # V15
    async with call(scripted, ENDLESS) as caller:
        await caller.say(type="response.cancel", event_id="before")
        await caller.hear_until("error")
        await caller.say(type="response.create")
        created = await caller.hear_until("response.created")
        await caller.say(type="response.cancel", event_id="unknown", response_id="resp_of_nobody")
        await caller.hear_until("error")
        for event_id in ("first", "second"):
            await caller.say(type="response.cancel", event_id=event_id, response_id=created["response_id"])
        await caller.hear_until("error")

    errors = {frame["error"]["event_id"]: frame["error"]["code"] for frame in heard(caller, "error")}
    assert errors == dict.fromkeys(("before", "unknown", "second"), "response_not_active")
    assert len(heard(caller, "response.done")) == 1


async def test_a_cancel_stops_the_model_within_50_ms(scripted: Deployment):  # V16
    told: Wire = {"on": "interrupt", "every": True, "do": [{"heard": "stop"}, {"wait_ms": 200}, {"heard": "still"}]}
    clock = asyncio.get_running_loop()
    took_s = []
    async with call(scripted, ENDLESS, told) as caller:
        while not took_s or (min(took_s) >= 0.05 and len(took_s) < 20):
            await caller.say(type="response.create")
            created = await caller.hear_until("response.created")
            await caller.hear_until("response.output_audio.delta")
            began_s = clock.time()
            await caller.say(type="response.cancel", response_id=created["response_id"])
            done = await caller.hear_until("response.done")
            since = len(caller.heard)
            await heard_turn(caller, "stop")
            took_s.append(clock.time() - began_s)
            await heard_turn(caller, "still")
            assert done["response"]["status"] == "cancelled"
            assert not [kind for kind in kinds(caller.heard[since:]) if kind.endswith(".delta")]

    assert min(took_s) < 0.05  # the machine may be busy now and then, but not all the time


async def heard_turn(caller: Caller, transcript: str) -> None:
    """Wait for the turn by which the script says how far it came."""
    completed = "conversation.item.input_audio_transcription.completed"
    await caller.hear_until(completed, where=lambda frame: frame["transcript"] == transcript)


# -- every response ends ---------------------------------------------------------------------------------------------


def random_answer(chance: random.Random) -> list[Wire]:
    """Anything a model may do when it is asked."""
    weather = {"name": "f", "call_id": f"call_{chance.getrandbits(64):x}", "arguments": {}}
    return chance.choice(
        [
            [QUICK, {"finish": True}],
            [QUICK, {"text": "In writing."}, QUICK, {"finish": True}],
            [{"text": "In writing."}, {"finish": True}],
            [{"listen": "model_listen"}],
            [{"function_call": weather}, {"finish": True}],
            [QUICK, {"fail": {"code": "response_error", "message": "out of order"}}],
            [QUICK, {"interrupt": "barge_in"}],
            [QUICK, {"wait_ms": 60_000}, {"finish": True}],
        ]
    )


async def random_runs(deployment: Deployment, seed: int) -> Counter[str]:
    """Answers of all kinds, every one asked for, some cancelled; how many ended how."""
    chance = random.Random(seed)
    steps: list[Wire] = [{"on": "generate", "do": random_answer(chance)} for _ in range(RUNS // CALLS)]
    async with call(deployment, *steps, modalities=chance.choice([["text"], ["text", "audio"]])) as caller:
        for step in steps:
            await caller.say(type="response.create")
            created = await caller.hear_until("response.created")
            if {"wait_ms": 60_000} in step["do"] or chance.random() < 0.2:
                await caller.say(type="response.cancel", response_id=created["response_id"])
            await caller.hear_until("response.done", where=lambda f, i=created["response_id"]: f["response_id"] == i)
    created_ids = [frame["response_id"] for frame in heard(caller, "response.created")]
    assert sorted(created_ids) == sorted(frame["response_id"] for frame in heard(caller, "response.done"))
    return Counter(frame["response"]["status"] for frame in heard(caller, "response.done"))


async def test_a_thousand_answers_of_all_kinds_each_end_exactly_once_and_in_order(scripted: Deployment):  # V17
    counts = await asyncio.gather(*(random_runs(scripted, seed) for seed in range(CALLS)))
    ended = sum(counts, Counter())
    assert ended.total() >= RUNS
    assert ended.keys() == {"completed", "cancelled", "failed"} and min(ended.values()) > 50


async def test_an_answer_that_comes_late_carries_its_metadata_and_can_be_cancelled(stock: Stock):  # V18
    metadata = {"client_event_id": "evt_late"}
    async with stock.call("late") as caller:
        await caller.say(type="response.create", response={"metadata": metadata})
        created = await caller.hear_until("response.created")
        await caller.hear_until("response.output_audio.delta")
        await caller.say(type="response.cancel", response_id=created["response"]["id"])
        done = await caller.hear_until("response.done")

    assert created["response"]["metadata"] == done["response"]["metadata"] == metadata
    assert done["response"]["status"] == "cancelled"


async def test_a_request_that_the_model_only_listens_to_ends_all_the_same(stock: Stock):  # V19
    async with stock.call("silent") as caller:
        await caller.say(type="response.create")
        await caller.hear_until("response.created")
        done = await caller.hear_until("response.done")

    assert not [part for item in done["response"]["output"] for part in item["content"]]
    assert not [kind for kind in kinds(caller.heard) if kind.endswith(".delta")]


async def test_an_answer_in_writing_has_no_sound(stock: Stock):  # V20
    async with stock.call("talking", output_modalities=["text"]) as caller:
        await caller.say(type="response.create")
        done = await caller.hear_until("response.done")

    assert not [kind for kind in kinds(caller.heard) if "audio" in kind]
    assert [frame["text"] for frame in heard(caller, "response.output_text.done")] == [WORDS]
    assert [part["type"] for part in done["response"]["output"][0]["content"]] == ["output_text"]


async def test_a_turn_that_is_not_to_be_answered_is_only_an_item(stock: Stock):  # V21
    unanswered = {"input": {"turn_detection": {"type": "server_vad", "create_response": False}}}
    async with stock.call("by_turns", audio=unanswered) as caller:
        await ask(caller)
        await caller.hear_until("conversation.item.done")
        await settle(caller)

    assert len(heard(caller, "input_audio_buffer.committed")) == 1
    assert not [kind for kind in kinds(caller.heard) if kind.startswith("response.") or kind == "error"]


async def test_a_close_in_mid_answer_is_clean(scripted: Deployment):  # V21
    async with call(scripted, ENDLESS) as caller:
        await caller.say(type="response.create")
        await caller.hear_until("response.output_audio.delta")
        await caller.say(type="session.close")
        await caller.hear_until("session.closed")
        await caller.socket.wait_closed()

    assert len(heard(caller, "response.done")) == 1 and not heard(caller, "error")
    assert caller.socket.close_code == 1000


# -- settings that must be applied -----------------------------------------------------------------------------------


async def test_the_end_of_speech_is_noticed_after_the_silence_it_takes(scripted: Deployment):  # V22
    speech = np.frombuffer(question_pcm(), "<i2")[: 16_000 * 13 // 10]
    async with call(scripted, turn_detection={"type": "server_vad", "silence_duration_ms": 500}) as caller:
        await caller.play(speech.tobytes(), silence_ms=2_000, realtime=False)
        await caller.hear_until("input_audio_buffer.speech_started")
        stopped = await caller.hear_until("input_audio_buffer.speech_stopped")

    assert 500 < stopped["audio_end_ms"] <= 1_300 + 500 + 100


async def test_a_new_threshold_leaves_the_detector_on_and_a_cancel_leaves_transcripts_on(stock: Stock):  # V23
    threshold = {"input": {"turn_detection": {"threshold": 0.6}}}
    async with stock.call("talking", audio=threshold) as caller:
        shown = heard(caller, "session.updated")[0]["session"]["audio"]["input"]["turn_detection"]
        await caller.say(type="response.create")
        created = await caller.hear_until("response.created")
        await caller.say(type="response.cancel", response_id=created["response"]["id"])
        await caller.hear_until("response.done")
        await ask(caller)
        await caller.say(type="input_audio_buffer.commit")
        completed = await caller.hear_until("conversation.item.input_audio_transcription.completed")

    assert (shown["type"], shown["threshold"]) == ("server_vad", 0.6)
    assert completed["transcript"] == "what is the weather"


MANUAL: Wire = {"input": {"turn_detection": None}}


@pytest.mark.parametrize("model", ["talking", "by_turns"])
async def test_without_turn_detection_nobody_is_answered_unasked(stock: Stock, model: str):  # V24
    async with stock.call(model, audio=MANUAL) as caller:
        await caller.play(question_24k(), rate_hz=24_000, silence_ms=800, realtime=False)
        await settle(caller)

    assert heard(caller, "session.updated")[0]["session"]["audio"]["input"]["turn_detection"] is None
    refused = ("response.created", "input_audio_buffer.committed", "input_audio_buffer.speech_stopped", "error")
    assert not set(refused) & set(kinds(caller.heard))


async def test_without_turn_detection_no_speech_is_reported(stock: Stock):  # V24
    async with stock.call("talking", audio=MANUAL) as caller:
        await caller.play(question_24k(), rate_hz=24_000, silence_ms=800, realtime=False)
        await settle(caller)

    assert not heard(caller, "input_audio_buffer.speech_started")


async def test_new_instructions_reach_the_model_with_its_next_turn(scripted: Deployment):  # V25
    async with chat_server([text_chunk("Yes.")]) as server:
        options = ("--chat-url", server.url, "--model-option", "name=asked")
        with Deployment(scripted.redis_url, gateways=0, model="chat", options=options):
            async with conversing(scripted.urls[0], model="asked", instructions="Be kind.") as caller:
                for instructions in (None, "Be brief."):
                    if instructions:
                        await caller.say(type="session.update", session={"instructions": instructions})
                        await caller.hear_until("session.updated")
                    await caller.say(type="input.text.append", text="Is it late?")
                    await caller.say(type="input.commit")
                    await caller.hear_until("response.done")

    systems = [[one["content"] for one in asked["messages"] if one["role"] == "system"] for asked in server.asked]
    assert systems == [["Be kind."], ["Be brief."]]


async def test_new_instructions_that_a_model_cannot_take_are_refused_aloud(profiled: Deployment):  # V25
    name = PROFILES["nemotron_voicechat"].info.name
    piece = base64.b64encode(pcm16(80)).decode()
    async with conversing(profiled.urls[0], model=name, extra_body={"auto_response": True, "script": []}) as caller:
        await caller.say(type="input_audio_buffer.append", audio=piece)
        await caller.say(type="session.update", event_id="evt_brief", session={"instructions": "Be brief."})
        error = (await caller.hear_until("error"))["error"]

    assert (error["code"], error["event_id"]) == ("instructions_update_unsupported", "evt_brief")
