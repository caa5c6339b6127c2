"""An answer goes on in another worker: whatever the moment, the client hears what it would have heard without that."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from duplex_es.log.api import Claim, Record
from duplex_es.log.memory import MemoryLog
from duplex_es.model import CloseModel, ContinueAnswer, Model, OpenModel, Recipe
from duplex_es.protocol import CancelResponse, CommitInput, ContentPart, CreateItem, CreateResponse, Item, to_plain
from duplex_es.protocol.records import unpack_output
from tests.support.calls import Caller, SpiedModel, all_output, check_log
from tests.support.cascade import shared_cascade
from tests.support.ordering import check_order
from tests.support.voices import spoken
from workers.actor import Actor
from workers.models.echo import EchoModel
from workers.models.scripted import ScriptedModel

pytestmark = pytest.mark.unit

Talk = Callable[[Caller], Awaitable[None]]

NOISE = np.random.default_rng(3).integers(-9_000, 9_000, 16_000, dtype="<i2").tobytes()
STORY = json.dumps(
    [
        {
            "on": "end_turn",
            "transcript": "hi",
            "do": [
                {"listen": "buffering"},
                {"audio_ms": 330, "text": "Well, let me see. "},
                {"function_call": {"name": "look", "arguments": {"a": 1}, "call_id": "call_1"}},
                {"wait_ms": 1},
                {"audio_ms": 250, "text": "Here it is. ", "tone_hz": 300},
                {"text": "Written."},
                {"finish": True},
            ],
        },
        {"on": "end_turn", "transcript": "and", "do": [{"audio_ms": 160, "text": "Next."}, {"finish": True}]},
    ]
)


class DyingLog(MemoryLog):
    """A log whose writer is gone once frame ``last`` is written, in the middle of a decision if need be."""

    def __init__(self, last: int | None = None) -> None:
        super().__init__()
        self.last = last
        self.dead = asyncio.Event()

    async def append_output(self, claim: Claim, first_seq: int, records: Sequence[Record]) -> None:
        if self.last is None or first_seq + len(records) <= self.last:
            await super().append_output(claim, first_seq, records)
            return
        await super().append_output(claim, first_seq, records[: self.last + 1 - first_seq])
        self.dead.set()
        await asyncio.Event().wait()


class Call:
    """One call, served by one worker after the other."""

    def __init__(self, log: DyingLog, caller: Caller) -> None:
        self.log, self.caller = log, caller
        self._served: list[tuple[Claim, asyncio.Task[None]]] = []

    @classmethod
    async def open(cls, model: str, *, last: int | None = None, **session: Any) -> Call:
        log = DyingLog(last)
        return cls(log, await Caller.open(log, model, **session))

    async def work(self, model: Model | SpiedModel) -> None:
        """One more worker takes the session up."""
        await model.load()
        claimed = await self.log.claim(f"w{len(self._served)}", [model.info.name])
        assert claimed is not None
        self._served.append((claimed[0], asyncio.create_task(Actor(self.log, *claimed, model).run())))

    async def lose(self, *, next_last: int | None) -> None:
        """The worker is gone, without a word, once it has written the last frame it gets to write."""
        async with asyncio.timeout(30):
            await self.log.dead.wait()
        self.log.last = next_last
        self.log.dead.clear()
        claim, task = self._served[-1]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await self.log.release(claim)

    async def ended(self, answers: int = 1) -> None:
        """All answers are over; the log is in order, and nobody works on it any more."""
        await self.caller.hears("response.done", answers)
        await self.caller.hears("rate_limits.updated", answers)
        self._served[-1][1].cancel()
        await asyncio.gather(*(task for _, task in self._served), return_exceptions=True)
        await self.caller.catch_up()
        await check_log(self.log, self.caller.ref, ended=True)
        check_order([to_plain(frame) for frame in self.caller.frames])

    @property
    def statuses(self) -> list[str]:
        return [done.response.status for done in self.caller.heard("response.done")]

    @property
    def sound(self) -> bytes:
        return b"".join(frame.delta for frame in self.caller.heard("response.output_audio.delta"))

    @property
    def words(self) -> str:
        return "".join(frame.delta for frame in self.caller.heard("response.output_audio_transcript.delta"))

    @property
    def shown(self) -> list[dict[str, Any]]:
        """All frames; the ids of calls, which are random, are made alike."""
        plain = json.dumps([to_plain(frame) for frame in self.caller.frames], default=bytes.hex)
        return json.loads(re.sub(r"call_[0-9a-f]{24}", "call", plain))

    async def boundaries(self) -> set[int]:
        """The seqs after which no frame of a decision is missing."""
        entries = await all_output(self.log, self.caller.ref)
        return {entry.id.number for entry in entries if unpack_output(entry.body).more == 0}


# -- what is said, and to whom -------------------------------------------------------------------------------------


def echo() -> Model:
    return EchoModel({"lead_ms": "none"})


def scripted() -> Model:
    return ScriptedModel({"lead_ms": "none", "chunk_ms": "100"})


def cascade() -> Model:
    return shared_cascade(lead_ms="none")


def spoken_to(pcm: bytes, *after: Any, rate_hz: int = 24_000) -> Talk:
    async def talk(caller: Caller) -> None:
        size = rate_hz // 50 * 2
        await caller.append(*(pcm[at : at + size] for at in range(0, len(pcm), size)), sample_rate_hz=rate_hz)
        await caller.say(*after)

    return talk


def typed_to(text: str) -> Talk:
    async def talk(caller: Caller) -> None:
        content = [ContentPart(type="input_text", text=text)]
        await caller.say(CreateItem(item=Item(type="message", role="user", content=content)), CreateResponse())

    return talk


def asked(text: str) -> bytes:
    return np.rint(spoken(text) * 32_767).astype("<i2").tobytes()


STORY_IS = {"extra_body": {"script": json.loads(STORY)}}
CALLS: dict[str, tuple[Callable[[], Model], Talk, dict[str, Any]]] = {
    "echo": (echo, spoken_to(NOISE, CommitInput()), {}),
    "echo of another rate": (echo, spoken_to(NOISE, CommitInput(), rate_hz=16_000), {}),
    "echo of a turn it ended": (echo, spoken_to(bytes(9_601) + NOISE + bytes(60_001), rate_hz=16_000), {}),
    "echo to a telephone": (
        echo,
        spoken_to(NOISE, CommitInput(), rate_hz=16_000),
        {"audio": {"output": {"format": {"type": "audio/pcmu"}}}},
    ),
    "echo at 16 kHz": (
        echo,
        spoken_to(NOISE, CommitInput()),
        {"audio": {"output": {"format": {"type": "audio/pcm", "rate": 16_000}}}},
    ),
    "echo of words": (echo, typed_to("one two three"), {}),
    "echo in writing": (echo, typed_to("one two three"), {"modalities": ["text"]}),
    "script": (scripted, spoken_to(NOISE, CommitInput()), STORY_IS),
    "script in writing": (scripted, spoken_to(NOISE, CommitInput()), {"modalities": ["text"], **STORY_IS}),
    "cascade": (cascade, typed_to("What is seven plus five?"), {}),
    "cascade by ear": (cascade, spoken_to(asked("What is seven plus five?"), CommitInput(), rate_hz=16_000), {}),
    "cascade in writing": (cascade, typed_to("What time is it?"), {"modalities": ["text"]}),
    "cascade calling": (
        cascade,
        typed_to("What is the weather in Paris?"),
        {"tools": [{"type": "function", "name": "get_weather", "parameters": {"properties": {"city": {}}}}]},
    ),
}


COMMITTED = ("echo", "echo of another rate", "echo to a telephone", "cascade by ear")
"""Calls whose turn is heard again, if it was not answered yet."""


async def undisturbed(name: str) -> Call:
    model, talk, session = CALLS[name]
    call = await Call.open(model().info.name, **session)
    await call.work(model())
    await talk(call.caller)
    await call.ended(2 if name in ("script", "script in writing", "cascade calling") else 1)
    return call


@pytest.mark.parametrize("name", CALLS)
async def test_a_worker_may_die_after_any_frame_of_an_answer(name: str) -> None:
    model, talk, session = CALLS[name]
    whole = await undisturbed(name)
    answers, boundaries = len(whole.statuses), await whole.boundaries()
    kinds = [frame["type"] for frame in whole.shown]
    first = kinds.index("conversation.item.added" if name in COMMITTED else "response.created") + 1
    assert first < len(whole.shown) - 10
    for last in range(first, len(whole.shown) + 1):
        call = await Call.open(model().info.name, last=last, **session)
        await call.work(model())
        await talk(call.caller)
        await call.lose(next_last=None)
        await call.work(model())
        await call.ended(answers)
        assert call.statuses == whole.statuses, f"after frame {last}"
        assert call.words == whole.words
        assert call.sound == whole.sound, f"after frame {last} of {len(whole.shown)}"
        if last in boundaries:
            assert call.shown == whole.shown, f"after frame {last}"


@pytest.mark.parametrize("name", ["echo", "echo of another rate", "echo at 16 kHz", "script", "cascade"])
async def test_an_answer_may_change_hands_again_and_again(name: str) -> None:
    model, talk, session = CALLS[name]
    whole = await undisturbed(name)
    answers, boundaries = len(whole.statuses), sorted(await whole.boundaries())
    first = [frame["type"] for frame in whole.shown].index("response.created") + 1
    turns = [seq for seq in boundaries if first <= seq < len(whole.shown) - 6]
    assert len(turns) > 3
    call = await Call.open(model().info.name, last=turns[0], **session)
    await call.work(model())
    await talk(call.caller)
    for next_last in (*turns[1:], None):
        await call.lose(next_last=next_last)
        await call.work(model())
    await call.ended(answers)
    assert call.shown == whole.shown
    assert call.sound == whole.sound


# -- what cannot go on, and what shall not --------------------------------------------------------------------------


async def broken_off(name: str, after: str = "response.output_audio.delta", **session: Any) -> Call:
    """A call whose worker died when the first frame ``after`` was written."""
    model, talk, settings = CALLS[name]
    whole = await undisturbed(name)
    last = [frame["type"] for frame in whole.shown].index(after) + 2
    call = await Call.open(model().info.name, last=last, **{**settings, **session})
    await call.work(model())
    await talk(call.caller)
    await call.lose(next_last=None)
    return call


def reasons_of(call: Call) -> list[str | None]:
    details = [done.response.status_details for done in call.caller.heard("response.done")]
    return [None if one is None else one.reason for one in details]


async def test_where_the_new_worker_s_model_cannot_do_it_the_answer_ends_as_failed() -> None:
    call = await broken_off("script")
    await call.work(ScriptedModel({"lead_ms": "none", "can_rebuild": "no"}))
    await call.ended()
    assert (call.statuses, reasons_of(call)) == (["failed"], ["worker_lost"])


async def test_an_answer_that_comes_out_differently_ends_as_failed_and_the_call_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    call = await broken_off("echo of words")
    other = SpiedModel(EchoModel({"lead_ms": "none"}))
    recipe, talk = Recipe(notes={"said": "four five six", "aloud": True}), CALLS["echo of words"][1]
    other.instead = {ContinueAnswer: lambda request: replace(request, recipe=recipe)}
    await call.work(other)
    await call.caller.hears("response.done")
    assert (call.statuses, reasons_of(call)) == (["failed"], ["worker_lost"])
    assert "another answer than was begun" in caplog.text
    await talk(call.caller)
    await call.ended(2)
    assert [type(request) for request in other.asked[:4]] == [OpenModel, ContinueAnswer, CloseModel, OpenModel]
    assert call.statuses == ["failed", "completed"]


async def test_sound_that_the_log_has_dropped_cannot_be_said_again() -> None:
    call = await broken_off("echo")
    model = SpiedModel(EchoModel({"lead_ms": "none"}))
    model.instead = {ContinueAnswer: lambda request: replace(request, sound=request.sound[:4_800])}
    await call.work(model)
    await call.ended()
    assert reasons_of(call) == ["worker_lost"]


async def test_a_model_that_says_it_cannot_is_believed() -> None:
    call = await broken_off("script")
    model = SpiedModel(ScriptedModel({"lead_ms": "none"}))
    model.instead = {ContinueAnswer: lambda request: replace(request, recipe=Recipe())}
    await call.work(model)
    await call.ended()
    assert (call.statuses, reasons_of(call)) == (["failed"], ["worker_lost"])


async def test_an_answer_that_is_cancelled_while_it_is_found_again_says_no_more() -> None:
    call = await broken_off("echo")
    before = call.sound
    await call.caller.say(CancelResponse())
    await call.caller.catch_up()
    before = call.sound
    await call.work(EchoModel({"lead_ms": "40"}))
    await call.ended()
    whole = await undisturbed("echo")
    assert call.statuses == ["cancelled"]
    assert whole.sound.startswith(call.sound)
    assert len(before) <= len(call.sound) < len(whole.sound)


async def test_a_script_goes_on_with_the_step_after_the_one_that_was_played() -> None:
    call = await broken_off("script")
    await call.work(scripted())
    await call.caller.hears("response.done", 2)
    await CALLS["script"][1](call.caller)
    await call.ended(3)
    assert call.words == "Well, let me see. Here it is. Next."


async def test_the_rest_comes_at_the_pace_of_the_model() -> None:
    call = await broken_off("echo of words")
    began = asyncio.get_running_loop().time()
    await call.work(EchoModel({"lead_ms": "100"}))
    await call.ended()
    took_s = asyncio.get_running_loop().time() - began
    assert took_s > 0.25, "three words take 0.6 s, one was said, 0.1 s may come early"
