"""What would survive: told to who asks, waited for where it cannot be taken back."""

from __future__ import annotations

import asyncio

import pytest

from duplex_es.log.errors import ConfigurationError, LogUnavailable
from duplex_es.log.memory import MemoryLog
from duplex_es.protocol import (
    ConversationItemAdded,
    ConversationItemDeleted,
    Frame,
    InputAudioBufferCommitted,
    Item,
    ResponseCreated,
    ResponseDone,
    ResponseFunctionCallArgumentsDelta,
    ResponseFunctionCallArgumentsDone,
    ResponseObject,
    ResponseOutputItemDone,
    ResponseSpeak,
    SessionClosed,
)
from gateway import durability as module
from gateway.durability import is_irreversible, persisted
from tests.gateway.stage import FakeWorker, audio_delta, joined, running, text_delta, types, until

pytestmark = pytest.mark.e2e


class LaggingLog(MemoryLog):
    """A log that keeps things only when it is told to: up to then ``persisted`` waits, or fails as it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.kept = asyncio.Event()
        self.failure: Exception | None = None
        self.asked = 0

    async def persisted(self, ref):  # type: ignore[no-untyped-def]
        """See ``SessionLog``."""
        self.asked += 1
        if self.failure is not None:
            raise self.failure
        await self.kept.wait()


def item(kind: str, status: str) -> Item:
    return Item(id="i", type=kind, status=status)


def answer(*outputs: Item) -> ResponseObject:
    return ResponseObject(id="resp_1", output=list(outputs))


CALL = ResponseFunctionCallArgumentsDone(
    response_id="resp_1", item_id="i", output_index=0, call_id="c", name="n", arguments="{}"
)
IRREVERSIBLE: list[Frame] = [
    SessionClosed(session_id="mine", reason="session_close"),
    InputAudioBufferCommitted(item_id="i", previous_item_id=None),
    ConversationItemAdded(previous_item_id=None, item=item("message", "completed")),
    ConversationItemDeleted(item_id="i"),
    CALL,
    ResponseOutputItemDone(response_id="resp_1", output_index=0, item=item("function_call", "completed")),
    ResponseDone(response=answer(item("function_call", "completed"))),
]
REVERSIBLE: list[Frame] = [
    audio_delta(b"\x00\x00"),
    text_delta("x"),
    ResponseSpeak(response_id="resp_1", item_id="i"),
    ResponseCreated(response=answer()),
    ConversationItemAdded(previous_item_id=None, item=item("message", "in_progress")),
    ResponseFunctionCallArgumentsDelta(response_id="resp_1", item_id="i", output_index=0, call_id="c", delta="{"),
    ResponseDone(response=answer(item("message", "completed"))),
]


@pytest.mark.parametrize("frame", IRREVERSIBLE, ids=lambda frame: type(frame).__name__)
def test_what_a_client_acts_on_cannot_be_taken_back(frame: Frame) -> None:
    assert is_irreversible(frame)


@pytest.mark.parametrize("frame", REVERSIBLE, ids=lambda frame: type(frame).__name__)
def test_sound_and_what_only_begins_waits_for_nothing(frame: Frame) -> None:
    assert not is_irreversible(frame)


async def test_with_strict_sound_goes_out_at_once_and_a_call_when_it_is_kept_with_all_that_follows_it() -> None:
    log = LaggingLog()
    async with (
        FakeWorker(log).working() as worker,
        running(log, durability="strict") as gateway,
        joined(gateway.url()) as client,
    ):
        await client.open(session_id="mine")
        await worker.show("mine", audio_delta(b"\x01\x00"), CALL, audio_delta(b"\x02\x00"))
        assert (await client.hear_type("response.output_audio.delta"))["server_event_seq"] == 2
        await until(lambda: log.asked == 1)
        early = asyncio.create_task(client.hear())
        await asyncio.sleep(0.05)
        assert not early.done(), "a call was shown that could still be lost"
        log.kept.set()
        assert (await early)["type"] == "response.function_call_arguments.done"
        assert (await client.hear_type("response.output_audio.delta"))["server_event_seq"] == 4
        await client.say("session.close")
        await client.hear_type("session.closed")
    assert log.asked == 2, "only what cannot be taken back is asked for"


async def test_with_strict_a_store_that_never_confirms_ends_the_socket_and_not_the_session() -> None:
    log = LaggingLog()
    log.failure = LogUnavailable("no replica")
    async with (
        FakeWorker(log).working() as worker,
        running(log, durability="strict", log_patience_s=0.1) as gateway,
        joined(gateway.url()) as client,
    ):
        await client.open(session_id="mine")
        await worker.show("mine", CALL)
        assert (await client.hear_type("error"))["error"]["code"] == "log_unavailable"
        assert await client.closed() == (1013, "log_unavailable")
        await until(lambda: types(worker.heard["mine"])[-1] == "SocketDetached")
        assert (await log.head("mine")).state == "claimed"


async def test_otherwise_nothing_waits() -> None:
    log = LaggingLog()
    for level in ("memory", "standard"):
        async with (
            FakeWorker(log).working() as worker,
            running(log, durability=level) as gateway,
            joined(gateway.url()) as client,
        ):
            await client.open(session_id=level)
            await worker.show(level, CALL)
            await client.hear_type("response.function_call_arguments.done")
    assert log.asked == 0


@pytest.mark.shows("session.durable")
async def test_a_client_that_asks_is_told_how_much_would_survive(monkeypatch: pytest.MonkeyPatch) -> None:
    """E14: the number follows what the store has confirmed, and never what was only sent."""
    monkeypatch.setattr(module, "INTERVAL_S", 0.005)
    log = LaggingLog()
    async with (
        FakeWorker(log).working() as worker,
        running(log) as gateway,
        joined(gateway.url("duplex=1&durable=1")) as client,
    ):
        created = await client.open(session_id="mine")
        assert created["durability"] == "standard"
        await until(lambda: log.asked == 1)
        await worker.show("mine", text_delta("a"), text_delta("b"))
        assert [(await client.hear())["type"] for _ in range(2)] == ["response.output_text.delta"] * 2
        log.kept.set()
        durable = [await client.hear_type("session.durable") for _ in range(2)]
        assert [frame["durable_seq"] for frame in durable] == [1, 3], "the first question knew of one frame"
        assert all("server_event_seq" not in frame for frame in durable)
        log.failure = LogUnavailable("no replica")
        await worker.show("mine", text_delta("c"))
        assert (await client.hear_type("response.output_text.delta"))["server_event_seq"] == 4
        asked = log.asked
        await until(lambda: log.asked > asked + 2)
        log.failure = None
        assert (await client.hear_type("session.durable"))["durable_seq"] == 4


@pytest.mark.parametrize(
    ("query", "level"),
    [("duplex=1", "standard"), ("dialect=ga&durable=1", "standard"), ("duplex=1&durable=1", "memory")],
)
async def test_nobody_else_hears_of_it(query: str, level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "INTERVAL_S", 0.001)
    log = LaggingLog()
    log.kept.set()
    async with (
        FakeWorker(log).working() as worker,
        running(log, durability=level) as gateway,
        joined(gateway.url(f"{query}&model=cascade&session_id=mine")) as client,
    ):
        created = await client.hear_type("session.created")
        assert created.get("durability") == ("memory" if level == "memory" else None)
        await worker.show("mine", *(text_delta(str(number)) for number in range(20)))
        assert [(await client.hear())["delta"] for _ in range(20)] == [str(number) for number in range(20)]
        await asyncio.sleep(0.02)
        await worker.show("mine", text_delta("last"))
        assert (await client.hear())["delta"] == "last"
    assert log.asked == 0


async def test_a_store_that_keeps_nothing_has_no_such_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "INTERVAL_S", 0.001)
    log = LaggingLog()
    log.failure = ConfigurationError("no append-only file, no replica")
    async with (
        FakeWorker(log).working(),
        running(log) as gateway,
        joined(gateway.url("duplex=1&durable=1")) as client,
    ):
        await client.open(session_id="mine")
        await until(lambda: log.asked == 1)
        await client.say("session.heartbeat")
        await client.hear_type("session.heartbeat_ack")
        await asyncio.sleep(0.02)
    assert log.asked == 1


async def test_a_question_that_is_not_answered_is_asked_again_for_a_while() -> None:
    log = LaggingLog()
    log.failure = LogUnavailable("slow")
    ref = await log.next_incarnation("mine")
    asking = asyncio.create_task(persisted(log, ref, 60.0))
    await until(lambda: log.asked == 2)
    log.failure = None
    log.kept.set()
    await asking
    log.failure = LogUnavailable("slow")
    with pytest.raises(LogUnavailable):
        await persisted(log, ref, 0.0)
