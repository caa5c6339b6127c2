"""Interruption and truncation, as voice services are known to get them wrong; each test has the number of its case.

All over sockets: a caller speaks over an answer, reports what it played, or cuts an answer at a millisecond.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest

from duplex_es.protocol import read_wav
from tests.support.calls import pcm16
from tests.support.examples import Wire
from tests.support.ordering import check_order
from tests.support.services import Deployment
from tests.support.talking import QUESTION, Caller, calling, conversing, question_pcm

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

WORDS = "It is sunny, twenty-four degrees, and the wind is calm."
ENDLESS: Wire = {"on": "generate", "every": True, "do": [{"audio_ms": 80, "text": "And on. ", "endless": True}]}
DETECTED: Wire = {"turn_detection": {"type": "server_vad"}}


def answer(ms: int, *before: Wire) -> Wire:
    """A step that answers every request with ``ms`` of sound, all of it at once."""
    said = {"audio_ms": ms, "text": WORDS, "pace": "fast"}
    return {"on": "generate", "every": True, "do": [*before, said, {"finish": True}]}


@pytest.fixture(scope="module")
def stock(scripted: Deployment) -> Iterator[str]:
    """The address of a session with a model that answers with 6100 ms, for clients that only know the stock API."""
    script = json.dumps([answer(6_100)])
    options = ("--slots", "16", "--model-option", "name=interrupted", "--model-option", f"script={script}")
    with Deployment(scripted.redis_url, gateways=0, model="scripted", options=options):
        yield f"{scripted.urls[0]}?model=interrupted&dialect=ga"


@asynccontextmanager
async def call(deployment: Deployment, *steps: Wire, model: str = "scripted", **session: Any) -> AsyncIterator[Caller]:
    """An open call to a model that plays ``steps`` when it is asked; whatever was heard was in order."""
    extra_body = {"auto_response": False, "script": list(steps)} if steps else {}
    async with conversing(deployment.urls[0], model=model, extra_body=extra_body, **session) as caller:
        yield caller
    check_order(caller.heard)


async def answered(caller: Caller) -> str:
    """Ask, and wait for the end of the answer; its item's id."""
    await caller.say(type="response.create")
    done = await caller.hear_until("response.done")
    assert done["response"]["status"] == "completed"
    return f"item_{done['response_id']}"


async def transcript_of(caller: Caller, item_id: str) -> str:
    """What the session remembers of an answer."""
    await caller.say(type="conversation.item.retrieve", item_id=item_id)
    item = (await caller.hear_until("conversation.item.retrieved"))["item"]
    return "".join(part.get("transcript", "") for part in item["content"])


def heard(caller: Caller, kind: str) -> list[Wire]:
    return [frame for frame in caller.heard if frame["type"] == kind]


def kinds(frames: list[Wire]) -> list[str]:
    return [frame["type"] for frame in frames]


# -- truncation ------------------------------------------------------------------------------------------------------


async def test_a_stock_client_may_truncate_beyond_the_end_of_what_was_generated(stock: str):  # V1
    async with calling(stock) as caller:
        await caller.hear_until("session.created")
        await caller.say(type="response.create")
        done = await caller.hear_until("response.done")
        item_id = done["response"]["output"][0]["id"]
        await caller.say(type="conversation.item.truncate", item_id=item_id, content_index=0, audio_end_ms=6_185)
        truncated = await caller.hear_until("conversation.item.truncated")
        await caller.say(type="session.update", session={"type": "realtime"})
        await caller.hear_until("session.updated")

    assert (truncated["item_id"], truncated["audio_end_ms"]) == (item_id, 6_100)
    assert not heard(caller, "error")


async def test_an_answer_truncated_before_its_first_sound_stays_empty(scripted: Deployment):  # V2
    async with call(scripted, answer(2_000, {"wait_ms": 300})) as caller:
        await caller.say(type="response.create")
        created = await caller.hear_until("response.created")
        item_id = f"item_{created['response_id']}"
        await caller.say(type="conversation.item.truncate", item_id=item_id, audio_end_ms=0)
        truncated = await caller.hear_until("conversation.item.truncated")
        await caller.hear_until("response.done")
        remembered = await transcript_of(caller, item_id)

    assert truncated["audio_end_ms"] == 0
    assert not [kind for kind in kinds(caller.heard) if kind.endswith(".delta") or kind == "error"]
    assert remembered == ""


async def test_an_answer_that_was_played_to_its_end_is_kept_whole_when_the_caller_speaks(scripted: Deployment):  # V3
    async with call(scripted, answer(600), **DETECTED) as caller:
        item_id = await answered(caller)
        await caller.say(type="playback.ack", item_id=item_id, played_ms=600)
        await caller.play(question_pcm(), realtime=False)
        await caller.hear_until("input_audio_buffer.speech_started")
        remembered = await transcript_of(caller, item_id)

    assert remembered == WORDS
    assert not heard(caller, "conversation.item.truncated")


async def test_late_reports_of_playback_end_nothing(scripted: Deployment):  # V4
    async with call(scripted, answer(600)) as caller:
        first = await answered(caller)
        await caller.say(type="playback.ack", item_id=first, played_ms=600)
        after_done = await caller.hear_until("playback.acknowledged")
        await answered(caller)
        for event_id, item_id in (("evt_late", first), ("evt_nobody", "item_of_nobody")):
            await caller.say(type="playback.ack", event_id=event_id, item_id=item_id, played_ms=600)
        await answered(caller)

    assert after_done["event"]["played_ms"] == 600
    refused = {frame["error"]["event_id"]: frame["error"]["code"] for frame in heard(caller, "error")}
    assert refused.pop("evt_nobody") == "playback_item_not_found"
    assert refused in ({}, {"evt_late": "playback_ack_too_late"})


async def test_clearing_the_output_after_it_was_played_leaves_the_history_alone(scripted: Deployment):  # V5
    async with call(scripted, answer(600)) as caller:
        item_id = await answered(caller)
        await caller.say(type="playback.ack", item_id=item_id, played_ms=600)
        before = await transcript_of(caller, item_id)
        await caller.say(type="output_audio_buffer.clear")
        await caller.hear_until("output_audio_buffer.cleared")
        after = await transcript_of(caller, item_id)

    assert before == after == WORDS


async def test_what_was_truncated_is_really_shorter(scripted: Deployment):  # V6
    async with call(scripted, answer(2_000)) as caller:
        item_id = await answered(caller)
        await caller.say(type="conversation.item.truncate", item_id=item_id, audio_end_ms=1_000)
        await caller.hear_until("conversation.item.truncated")
        remembered = await transcript_of(caller, item_id)

    assert WORDS.startswith(remembered) and 0 < len(remembered) < len(WORDS)


async def test_a_position_far_beyond_the_answer_is_its_end(scripted: Deployment):  # V7
    async with call(scripted, answer(9_250)) as caller:
        item_id = await answered(caller)
        await caller.say(type="conversation.item.truncate", item_id=item_id, audio_end_ms=57_340)
        truncated = await caller.hear_until("conversation.item.truncated")

    assert truncated["audio_end_ms"] == 9_250
    assert not heard(caller, "error")


# -- speech over an answer -------------------------------------------------------------------------------------------


async def interrupted(caller: Caller, *, played_ms: int | None) -> Wire:
    """An answer of which 2000 ms were sent is spoken over; its end."""
    await caller.say(type="response.create")
    delta = await caller.hear_until(
        "response.output_audio.delta", where=lambda frame: frame["metadata"]["audio_duration_ms"] == 2_000
    )
    if played_ms is not None:
        await caller.say(type="playback.ack", response_id=delta["response_id"], played_ms=played_ms)
        await caller.hear_until("playback.acknowledged")
    await caller.play(question_pcm(), realtime=False)
    return await caller.hear_until("response.done")


SPOKEN_OVER: Wire = {
    "on": "generate",
    "do": [{"audio_ms": 2_000, "text": WORDS, "pace": "fast"}, {"wait_ms": 60_000}, {"finish": True}],
}


@pytest.mark.parametrize(("played_ms", "heard_ms"), [(300, 300), (None, 2_000)], ids=["reported", "not_reported"])
async def test_an_answer_that_is_spoken_over_is_remembered_as_far_as_it_was_heard(  # V8
    scripted: Deployment, played_ms: int | None, heard_ms: int
):
    async with call(scripted, SPOKEN_OVER, **DETECTED) as caller:
        done = await interrupted(caller, played_ms=played_ms)
        remembered = await transcript_of(caller, f"item_{done['response_id']}")

    assert done["response"]["status_details"]["reason"] == "turn_detected"
    assert WORDS.startswith(remembered)
    # Words ride on the chunk they begin in, so the cut may be off by one of them.
    assert len(remembered) == pytest.approx(len(WORDS) * heard_ms / 2_000, abs=6)


@pytest.mark.parametrize(
    ("played_ms", "position"), [(300, "committed_ms"), (None, "sent_ms")], ids=["reported", "not_reported"]
)
async def test_the_end_of_an_answer_that_was_spoken_over_says_how_far_it_was_heard(  # V8
    scripted: Deployment, played_ms: int | None, position: str
):
    async with call(scripted, SPOKEN_OVER, **DETECTED) as caller:
        done = await interrupted(caller, played_ms=played_ms)
        await transcript_of(caller, f"item_{done['response_id']}")

    # The published order of a cancelled answer has no conversation.item.truncated; the ledger of its end says the same.
    assert done["response"]["metadata"]["playback"][position] == (played_ms or 2_000)
    assert not heard(caller, "conversation.item.truncated")


async def test_loud_speech_interrupts_exactly_once(scripted: Deployment):  # V9
    samples = np.frombuffer(question_pcm(), "<i2") * (32_000 / np.abs(np.frombuffer(question_pcm(), "<i2")).max())
    async with call(scripted, ENDLESS, **DETECTED) as caller:
        await caller.say(type="response.create")
        await caller.hear_until("response.output_audio.delta")
        await caller.play(samples.astype("<i2").tobytes(), silence_ms=1_000, realtime=False)
        await caller.hear_until("input_audio_buffer.speech_stopped")

    assert len(heard(caller, "input_audio_buffer.speech_started")) == 1
    (done,) = heard(caller, "response.done")
    assert done["response"]["status"] == "cancelled"
    after = caller.heard[caller.heard.index(done) :]
    assert "response.output_audio.delta" not in kinds(after)


async def test_an_answer_ends_within_300_ms_of_the_speech_over_it(scripted: Deployment):  # V10
    clock = asyncio.get_running_loop()
    took_s: list[float] = []
    while not took_s or (min(took_s) >= 0.3 and len(took_s) < 5):
        async with call(scripted, ENDLESS, **DETECTED) as caller:
            await caller.say(type="response.create")
            await caller.hear_until(
                "response.output_audio.delta", where=lambda frame: frame["metadata"]["audio_duration_ms"] >= 500
            )
            speaking = asyncio.create_task(caller.play(question_pcm()))
            await caller.hear_until("input_audio_buffer.speech_started")
            started_s = clock.time()
            done = await caller.hear_until("response.done")
            took_s.append(clock.time() - started_s)
            speaking.cancel()
        assert done["response"]["status"] == "cancelled"

    assert min(took_s) < 0.3  # the machine may be busy now and then, but not all the time


def recording(name: str) -> bytes:
    """A recording of ``examples/audio``, 16 kHz PCM16."""
    _, _, pcm = read_wav(QUESTION.with_name(f"{name}.wav").read_bytes())
    return pcm


async def test_the_echo_of_an_answer_does_not_interrupt_it_and_another_voice_does(pair: Deployment):  # V11
    async with conversing(pair.urls[0], model="echo", extra_body={"echo_guard": True}, **DETECTED) as caller:
        await caller.play(question_pcm(), realtime=False)
        await caller.say(type="input_audio_buffer.commit", response_create=True)
        while "response.done" not in kinds(caller.heard):
            frame = await caller.hear()
            if frame["type"] == "response.output_audio.delta":
                own = np.frombuffer(base64.b64decode(frame["delta"]), "<i2")
                echo = base64.b64encode((own * 0.25).astype("<i2").tobytes()).decode()
                rate_hz = frame["sample_rate_hz"]
                await caller.say(type="input_audio_buffer.append", audio=echo, sample_rate_hz=rate_hz)
        # What the echo would be of is not said again: the very same sound would be taken for one.
        await caller.play(recording("story"), realtime=False)
        await caller.say(type="input_audio_buffer.commit", response_create=True)
        await caller.hear_until("response.output_audio.delta")
        await caller.play(recording("interrupt"), realtime=False)
        await caller.hear_until("response.done")

    first, second = heard(caller, "response.done")[:2]
    assert first["response"]["status"] == "completed"
    assert second["response"]["status"] == "cancelled"


async def test_after_a_close_in_mid_answer_the_next_call_hears_nothing_of_it(scripted: Deployment):  # V44
    async with call(scripted, ENDLESS) as first:
        await first.say(type="response.create")
        await first.hear_until("response.output_audio.delta")
    async with call(scripted, {"on": "end_turn", "do": []}) as second:
        await second.say(type="input_audio_buffer.append", audio=base64.b64encode(pcm16(200)).decode())
        await second.say(type="input_audio_buffer.commit")
        await second.hear_until("conversation.item.done")

    assert kinds(first.heard)[-1] == "session.closed"
    assert second.answer_pcm == b""
