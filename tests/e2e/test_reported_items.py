"""Items, tools and transcripts, as voice services are known to get them wrong; each test has the number of its case."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.support.calls import pcm16
from tests.support.chat_server import chat_server, text_chunk
from tests.support.examples import Wire
from tests.support.ordering import check_order
from tests.support.services import Deployment
from tests.support.talking import Caller, calling, conversing

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

ENDLESS: list[Wire] = [{"audio_ms": 80, "text": "And on. ", "endless": True}]


@asynccontextmanager
async def call(deployment: Deployment, *steps: Wire, **session: Any) -> AsyncIterator[Caller]:
    """An open call to a model that plays ``steps`` when it is asked; whatever was heard was in order."""
    extra_body = {"auto_response": False, "script": list(steps), **session.pop("extra_body", {})}
    async with conversing(deployment.urls[0], model="scripted", extra_body=extra_body, **session) as caller:
        yield caller
    check_order(caller.heard)


def calls(call_id: str) -> Wire:
    """A step that calls a function."""
    weather = {"name": "get_weather", "call_id": call_id, "arguments": {"city": "Paris"}}
    return {"on": "generate", "do": [{"function_call": weather}, {"finish": True}]}


async def called(caller: Caller, call_id: str) -> None:
    """Ask, and wait until the function was called and nothing is being answered any more."""
    await caller.say(type="response.create")
    asked = await caller.hear_until("response.created")
    await caller.hear_until("response.function_call_arguments.done", where=lambda frame: frame["call_id"] == call_id)
    await caller.hear_until("response.done", where=lambda frame: frame["response_id"] == asked["response_id"])


async def answer_call(caller: Caller, call_id: str, **fields: Any) -> None:
    item = {"type": "function_call_output", "call_id": call_id, "output": '{"temperature_c":24}'}
    await caller.say(type="conversation.item.create", item=item, **fields)


def typed(text: str, **fields: Any) -> Wire:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}], **fields}


async def create(caller: Caller, item: Wire) -> Wire:
    """Create an item; how it stands in the conversation."""
    await caller.say(type="conversation.item.create", item=item)
    done: Wire = (await caller.hear_until("conversation.item.done"))["item"]
    return done


async def settle(caller: Caller) -> None:
    """Return once everything said so far was answered."""
    await caller.say(type="session.update", session={})
    await caller.hear_until("session.updated")


def heard(caller: Caller, kind: str) -> list[Wire]:
    return [frame for frame in caller.heard if frame["type"] == kind]


def errors(caller: Caller) -> dict[str, str]:
    """The code of each refused event."""
    return {frame["error"]["event_id"]: frame["error"]["code"] for frame in heard(caller, "error")}


def outputs(caller: Caller) -> list[str]:
    """The calls that were answered, in order."""
    items = [frame["item"] for frame in heard(caller, "conversation.item.done")]
    return [item["call_id"] for item in items if item["type"] == "function_call_output"]


# -- tools -----------------------------------------------------------------------------------------------------------


async def test_fifty_calls_one_after_the_other_are_all_answered(scripted: Deployment):  # V36
    names = [f"call_{number}" for number in range(50)]
    async with call(scripted, *(calls(name) for name in names)) as caller:
        for name in names:
            await called(caller, name)
            await answer_call(caller, name)
            await caller.hear_until("conversation.item.done")

    assert outputs(caller) == names
    assert not errors(caller)


async def interrupted_after_a_call(caller: Caller) -> None:
    """A function was called, then the caller broke in."""
    await called(caller, "call_1")
    await caller.say(type="response.create")
    await caller.hear_until("response.output_audio.delta")
    await caller.say(type="barge_in")
    await caller.hear_until("response.done")


INTERRUPTED: tuple[Wire, ...] = (calls("call_1"), {"on": "generate", "do": ENDLESS})


async def test_outputs_that_come_late_twice_or_for_nothing_end_nothing(scripted: Deployment):  # V37
    async with call(scripted, *INTERRUPTED) as caller:
        await interrupted_after_a_call(caller)
        for event_id, call_id in (("evt_late", "call_1"), ("evt_twice", "call_1"), ("evt_unknown", "call_of_nobody")):
            await answer_call(caller, call_id, event_id=event_id)
        await settle(caller)
        await create(caller, typed("still there?"))

    assert outputs(caller) == ["call_1"]
    assert errors(caller) == dict.fromkeys(("evt_twice", "evt_unknown"), "invalid_function_call_output")
    twice, unknown = (frame["error"]["param"] for frame in heard(caller, "error"))
    assert (twice, unknown) == ("item.output", "item.call_id")


async def test_an_output_that_an_interruption_overtook_is_refused_where_that_is_wanted(scripted: Deployment):  # V37
    async with call(scripted, *INTERRUPTED, extra_body={"stale_function_outputs": "refuse"}) as caller:
        await interrupted_after_a_call(caller)
        await answer_call(caller, "call_1", event_id="evt_late")
        await settle(caller)

    assert errors(caller) == {"evt_late": "stale_function_call_output"}
    assert outputs(caller) == []


async def test_a_context_may_be_deleted_while_a_call_is_open(scripted: Deployment):  # V39
    async with call(scripted, calls("call_1")) as caller:
        question = await create(caller, typed("What is the weather?"))
        await called(caller, "call_1")
        await caller.say(type="conversation.item.delete", item_id=question["id"])
        await caller.hear_until("conversation.item.deleted")
        await answer_call(caller, "call_1")
        await caller.hear_until("conversation.item.done")

    assert outputs(caller) == ["call_1"]
    assert not errors(caller)


async def test_an_open_call_may_be_deleted_itself_and_its_output_has_a_clean_end(scripted: Deployment):  # V39
    async with call(scripted, calls("call_1")) as caller:
        await called(caller, "call_1")
        items = [frame["item"] for frame in heard(caller, "conversation.item.done")]
        (item_id,) = (item["id"] for item in items if item["type"] == "function_call")
        await caller.say(type="conversation.item.delete", item_id=item_id)
        await caller.hear_until("conversation.item.deleted")
        await answer_call(caller, "call_1", event_id="evt_orphan")
        await settle(caller)

    assert outputs(caller) == ["call_1"] or errors(caller) == {"evt_orphan": "invalid_function_call_output"}


# -- items -----------------------------------------------------------------------------------------------------------


async def test_an_item_that_follows_nobody_is_refused_by_name_within_100_ms(scripted: Deployment):  # V38
    clock = asyncio.get_running_loop()
    took_s = []
    async with calling(scripted.urls[0], query="?model=scripted&dialect=ga") as caller:
        await caller.hear_until("session.created")
        for number in range(20):
            began_s, event_id = clock.time(), f"evt_{number}"
            await caller.say(
                type="conversation.item.create",
                event_id=event_id,
                previous_item_id="item_of_nobody",
                item=typed("hello", id=f"item_{number}"),
            )
            error = (await caller.hear_until("error"))["error"]
            took_s.append(clock.time() - began_s)
            assert error["event_id"] == event_id

    assert min(took_s) < 0.1  # the machine may be busy now and then, but not all the time
    assert not heard(caller, "conversation.item.added")


async def test_three_turns_can_be_put_together_from_what_was_told(scripted: Deployment):  # V40
    steps = [
        {"on": "end_turn", "transcript": f"question {turn}", "do": [{"audio_ms": 320, "text": f"Answer {turn}."}, done]}
        for turn, done in enumerate([{"finish": True}] * 3)
    ]
    told: dict[str, str] = {}
    async with call(scripted, *steps) as caller:
        for _ in range(3):
            sound = base64.b64encode(pcm16(200)).decode()
            await caller.say(type="input_audio_buffer.append", audio=sound)
            await caller.say(type="input_audio_buffer.commit", response_create=True)
            await caller.hear_until("response.done")
        for frame in caller.heard:
            match frame["type"]:
                case "conversation.item.added":
                    told[frame["item"]["id"]] = ""
                case "response.output_audio_transcript.delta":
                    told[frame["item_id"]] += frame["delta"]
                case "conversation.item.done" if frame["item"]["role"] == "user":
                    told[frame["item"]["id"]] = frame["item"]["content"][0]["transcript"]
        remembered = {}
        for item_id in told:
            await caller.say(type="conversation.item.retrieve", item_id=item_id)
            item = (await caller.hear_until("conversation.item.retrieved"))["item"]
            remembered[item_id] = item["content"][0]["transcript"]

    assert told == remembered
    assert list(told.values()) == [f"{what} {turn}{'.' * (what == 'Answer')}" for turn in range(3) for what in TURN]


TURN = ("question", "Answer")


@pytest.mark.parametrize("dialect", ["duplex", "ga"])
async def test_keys_that_an_item_does_not_need_are_no_mistake(scripted: Deployment, dialect: str):  # V41
    part = {"type": "input_text", "text": "hello", "annotations": [], "logprobs": None}
    item = {**typed("", id="item_mine", object="realtime.item", status="completed", mood="good"), "content": [part]}
    async with calling(scripted.urls[0], query=f"?model=scripted&dialect={dialect}") as caller:
        await caller.hear_until("session.created")
        made = await create(caller, item)
        await caller.say(type="session.close")

    assert (made["id"], made["status"]) == ("item_mine", "completed")
    assert made["content"] == [{"type": "input_text", "text": "hello"}]
    assert not heard(caller, "error")


async def test_usage_counts_each_response_once(scripted: Deployment):  # V42, V61
    used = [{"prompt_tokens": 100 * n, "completion_tokens": 10 * n, "total_tokens": 110 * n} for n in (1, 2, 3)]
    cached = [{**one, "prompt_tokens_details": {"cached_tokens": one["prompt_tokens"] - 100}} for one in used]
    script = [[text_chunk("Yes."), {"choices": [], "usage": usage}] for usage in cached]
    async with chat_server(*script) as server:
        options = ("--chat-url", server.url, "--model-option", "name=counted")
        with Deployment(scripted.redis_url, gateways=0, model="chat", options=options):
            async with conversing(scripted.urls[0], model="counted") as caller:
                for _ in script:
                    await caller.say(type="input.text.append", text="Is it late?")
                    await caller.say(type="input.commit")
                    await caller.hear_until("response.done")

    usages = [frame["response"]["usage"] for frame in heard(caller, "response.done")]
    assert [usage["input_tokens"] for usage in usages] == [100, 200, 300]
    assert [usage["output_tokens"] for usage in usages] == [10, 20, 30]
    assert all(usage["input_token_details"].get("cached_tokens", 0) <= usage["input_tokens"] for usage in usages)
    total = heard(caller, "session.closed")[0]["event"]["usage"]
    assert (total["input_tokens"], total["output_tokens"], total["responses"]) == (600, 60, 3)


# -- a listener that comes late --------------------------------------------------------------------------------------


async def test_nothing_comes_before_the_upgrade_and_an_update_tells_everything_again(scripted: Deployment):  # V43
    where = urlsplit(scripted.urls[0])
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    key = base64.b64encode(secrets.token_bytes(16)).decode()
    lines = (
        f"GET {where.path}?model=scripted&dialect=ga HTTP/1.1",
        f"Host: {where.netloc}",
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        f"Sec-WebSocket-Key: {key}",
    )
    writer.write("\r\n".join((*lines, "", "")).encode())
    async with asyncio.timeout(30):
        reply = await reader.readuntil(b"\r\n\r\n")
        created = await frame_of(reader)
    writer.close()

    assert reply.startswith(b"HTTP/1.1 101 ")
    assert created["type"] == "session.created"
    async with calling(scripted.urls[0], query="?model=scripted&dialect=ga") as caller:
        created = await caller.hear_until("session.created")
        await caller.say(type="session.update", session={"type": "realtime"})
        updated = await caller.hear_until("session.updated")
    assert updated["session"].items() >= {k: v for k, v in created["session"].items() if k != "duplex"}.items()


async def frame_of(reader: asyncio.StreamReader) -> Wire:
    """The next text frame of a server, read by hand."""
    head = await reader.readexactly(2)
    assert head[0] == 0x81, "a whole text frame"
    size = head[1]
    if size >= 126:
        size = int.from_bytes(await reader.readexactly(2 if size == 126 else 8), "big")
    frame: Wire = json.loads(await reader.readexactly(size))
    return frame


# -- nothing is left out ---------------------------------------------------------------------------------------------


def test_every_case_from_1_to_43_has_a_test():
    modules = Path(__file__).parent.glob("test_reported_*.py")
    told = [re.findall(r"^async def test_\w+\([^#]*# (V.*)$", module.read_text(), re.MULTILINE) for module in modules]
    numbers = {int(number) for cases in told for case in cases for number in re.findall(r"V(\d+)", case)}
    assert numbers >= set(range(1, 44))
