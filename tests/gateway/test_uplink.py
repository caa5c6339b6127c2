"""What becomes of each frame a client sends, and how many writes a burst costs."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Sequence

import pytest

from duplex_es.log.api import Attachment, Record
from duplex_es.log.errors import Fenced, SessionUnknown
from duplex_es.log.memory import MemoryLog
from duplex_es.protocol import AppendText, RefuseCommand, unpack_input
from duplex_es.protocol.dialects import DUPLEX
from gateway import uplink as module
from gateway.acknowledging import Acknowledger
from gateway.dialects import Voice
from gateway.peer import Gone
from gateway.uplink import Uplink
from gateway.writer import InputWriter
from tests.gateway.stage import FakeWorker, Gateway, joined, running, types

pytestmark = pytest.mark.e2e


class CountingLog(MemoryLog):
    """Counts calls of ``append_input``; each waits until ``gate`` is open."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[list[Record]] = []
        self.gate = asyncio.Event()
        self.failure: Exception | None = None

    async def append_input(self, attachment: Attachment, first_index: int, records: Sequence[Record]) -> None:
        """See ``SessionLog``."""
        self.batches.append(list(records))
        await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        await super().append_input(attachment, first_index, records)


class Mouth:
    """A peer that says what is put into it."""

    def __init__(self) -> None:
        self.voice = Voice(DUPLEX)
        self.dialect = DUPLEX
        self.queue: asyncio.Queue[str | bytes | Gone] = asyncio.Queue()

    async def receive(self) -> str | bytes | Gone:
        """The next frame."""
        return await self.queue.get()

    def say(self, text: str) -> None:
        """Say one text append."""
        self.queue.put_nowait(json.dumps({"type": "input.text.append", "text": text}))


async def stage(log: CountingLog) -> tuple[Mouth, Uplink, list[str]]:
    """An uplink on a fresh session; the list counts how often the first frame was reported."""
    ref = await log.next_incarnation("mine")
    attachment = await log.create(ref, model="m", token_digest=b"d", gateway="g", record=b"")
    mouth, reported = Mouth(), list[str]()

    async def first_frame() -> None:
        reported.append("first")

    uplink = Uplink(
        mouth,  # type: ignore[arg-type]
        InputWriter(log, attachment),
        Acknowledger(log, attachment, lambda: 10),
        first_frame=first_frame,
        max_event_bytes=1000,
    )
    return mouth, uplink, reported


def texts(batch: Sequence[Record]) -> list[str]:
    """What a batch says."""
    said = [unpack_input(record.body, record.audio).said for record in batch]
    return [one.text if isinstance(one, AppendText) else type(one).__name__ for one in said]


async def test_a_lone_frame_goes_at_once_and_what_came_meanwhile_shares_the_next_write() -> None:
    log = CountingLog()
    mouth, uplink, reported = await stage(log)
    running_uplink = asyncio.create_task(uplink.run())
    mouth.say("first")
    while not log.batches:
        await asyncio.sleep(0)
    for index in range(5):
        mouth.say(f"{index}")
    mouth.queue.put_nowait(Gone(1000))
    while mouth.queue.qsize():
        await asyncio.sleep(0)
    log.gate.set()
    ending = await running_uplink
    assert [texts(batch) for batch in log.batches] == [["first"], ["0", "1", "2", "3", "4"]]
    assert (ending.cause, reported) == ("client_closed", ["first"])


async def test_reading_pauses_while_too_much_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HELD_BYTES", 500)
    log = CountingLog()
    mouth, uplink, _ = await stage(log)
    running_uplink = asyncio.create_task(uplink.run())
    for _ in range(20):
        mouth.say("x" * 200)
    mouth.queue.put_nowait(Gone(1000))
    for _ in range(100):
        await asyncio.sleep(0)
    assert mouth.queue.qsize() > 10, "the socket must wait"
    log.gate.set()
    await running_uplink
    assert sum(len(batch) for batch in log.batches) == 20


async def test_a_superseded_socket_stops_writing() -> None:
    log = CountingLog()
    log.gate.set()
    log.failure = Fenced("newer")
    mouth, uplink, _ = await stage(log)
    mouth.say("late")
    with pytest.raises(Fenced):
        await uplink.run()


async def test_a_session_that_is_over_leaves_the_last_word_to_the_downlink(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LAST_WORDS_S", 0.02)
    log = CountingLog()
    log.gate.set()
    log.failure = SessionUnknown("over")
    mouth, uplink, _ = await stage(log)
    mouth.say("late")
    started_s = asyncio.get_running_loop().time()
    with pytest.raises(SessionUnknown):
        await uplink.run()
    assert asyncio.get_running_loop().time() - started_s >= 0.02


async def test_a_lost_connection_proves_nothing_about_what_was_received() -> None:
    log = CountingLog()
    mouth, uplink, reported = await stage(log)
    mouth.queue.put_nowait(Gone(1005))
    assert (await uplink.run()).cause == "connection_lost"
    assert reported == []


async def test_audio_reaches_the_log_as_bytes(gateway: Gateway, worker: FakeWorker) -> None:
    sound = bytes(range(200))
    async with joined(gateway.url()) as client:
        await client.open(session_id="mine")
        await client.say("input_audio_buffer.append", audio=base64.b64encode(sound).decode())
        echoed = await client.hear_type("response.output_audio.delta")
        assert base64.b64decode(echoed["delta"]) == sound
    entries = await gateway.service.log.read_input((await gateway.service.log.head("mine")).ref, worker_start())
    assert [entry.audio for entry in entries if entry.audio] == [sound]


def worker_start():  # type: ignore[no-untyped-def]
    """Before the first entry."""
    from duplex_es.log.api import START

    return START


@pytest.mark.parametrize(
    ("frame", "code", "event_id"),
    [
        ("{oops", "invalid_json", None),
        ('"text"', "bad_event", None),
        ('{"event_id": "e1"}', "bad_event", "e1"),
        ('{"type": "no.such", "event_id": "e1"}', "unknown_event", "e1"),
        ('{"type": "input_audio_buffer.append", "audio": "&&&&", "event_id": "e1"}', "bad_audio", "e1"),
        ('{"type": "input.text.append", "text": 5, "event_id": "e1"}', "bad_event", "e1"),
        ('{"type": "session.event_ack", "server_event_seq": -1, "event_id": "e1"}', "invalid_event_ack", "e1"),
    ],
)
async def test_a_frame_that_cannot_be_read_is_refused_in_order_and_the_session_goes_on(
    gateway: Gateway, frame: str, code: str, event_id: str | None
) -> None:
    async with joined(gateway.url()) as client:
        await client.open()
        await client.say("session.heartbeat")
        await client.socket.send(frame)
        await client.say("session.heartbeat")
        await client.hear_type("session.heartbeat_ack")
        error = await client.hear_type("error")
        assert (error["server_event_seq"], error["error"]["code"]) == (3, code)
        assert error["error"].get("event_id") == event_id
        assert (await client.hear_type("session.heartbeat_ack"))["server_event_seq"] == 4


async def test_an_oversize_event_is_skipped_and_the_connection_stays(log: MemoryLog, worker: FakeWorker) -> None:
    async with running(log, max_event_bytes=2000) as gateway, joined(gateway.url()) as client:
        await client.open()
        await client.say("input.text.append", text="é" * 1500)
        assert (await client.hear_type("error"))["error"]["code"] == "event_too_large"
        await client.say("session.heartbeat")
        await client.hear_type("session.heartbeat_ack")


async def test_fifteen_mebibytes_and_one_byte_are_too_many(gateway: Gateway) -> None:
    async with joined(gateway.url()) as client:
        await client.open()
        frame = json.dumps({"type": "input.text.append", "event_id": "e1", "text": ""})
        await client.socket.send(frame[:-2] + "x" * (15 * 1024 * 1024 + 1 - len(frame)) + frame[-2:])
        error = (await client.hear_type("error"))["error"]
        assert (error["code"], error["event_id"]) == ("event_too_large", "e1")
        await client.say("session.heartbeat")
        await client.hear_type("session.heartbeat_ack")


async def test_a_late_resume_is_refused_without_its_secret(gateway: Gateway, worker: FakeWorker) -> None:
    async with joined(gateway.url()) as client:
        created = await client.open(session_id="mine")
        await client.say(
            "session.resume", event_id="e1", session_id="mine", incarnation=0, resume_token=created["resume_token"]
        )
        error = (await client.hear_type("error"))["error"]
        assert (error["code"], error["event_id"]) == ("unsupported_session_resume", "e1")
        refusal = worker.heard["mine"][-1]
        assert isinstance(refusal, RefuseCommand)
        assert created["resume_token"] not in repr(refusal)


async def test_acknowledgements_move_the_boundary_and_stay_out_of_the_input(
    gateway: Gateway, worker: FakeWorker
) -> None:
    async with joined(gateway.url()) as client:
        await client.open(session_id="mine")
        await client.say("input.text.append", text="say 20")
        for seq in range(2, 22):
            assert (await client.hear())["server_event_seq"] == seq
            await client.say("session.event_ack", server_event_seq=seq)
        async with asyncio.timeout(30):
            while (await gateway.service.log.head("mine")).acknowledged_seq < 21:
                await asyncio.sleep(0.005)
        assert "AcknowledgeEvents" not in types(worker.heard["mine"])


async def test_an_acknowledgement_of_what_was_never_sent_is_the_sessions_to_refuse(gateway: Gateway) -> None:
    async with joined(gateway.url()) as client:
        await client.open()
        await client.say("session.event_ack", server_event_seq=99)
        assert (await client.hear_type("error"))["error"]["code"] == "invalid_event_ack"
