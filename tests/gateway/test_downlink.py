"""What a socket hears of the session's output, and when it stops hearing."""

from __future__ import annotations

import asyncio
import base64
import json

import pytest

from duplex_es.log.api import Attachment, Claim, EntryId, Record, SessionRef
from duplex_es.log.errors import PositionGone
from duplex_es.log.memory import MemoryLog
from duplex_es.protocol import (
    Frame,
    ResponseCreated,
    ResponseDone,
    ResponseObject,
    SessionClosed,
    SessionExpired,
    derive_event_id,
    encode_frame,
    pack_output,
)
from gateway import endings
from gateway.downlink import Downlink, SocketLost
from tests.gateway.stage import FakeWorker, Gateway, audio_delta, joined, text_delta, types, until

pytestmark = pytest.mark.e2e


class Ear:
    """A peer that keeps what it hears, and takes ``limit`` frames."""

    def __init__(self, limit: int = 1_000_000) -> None:
        self.dialect = "duplex"
        self.heard: list[dict[str, object]] = []
        self.limit = limit

    async def tell(self, frame: Frame, *, event_id: str | None = None, seq: int | None = None) -> bool:
        """Take one frame."""
        if len(self.heard) >= self.limit:
            return False
        self.heard.append(json.loads(encode_frame(frame, event_id=event_id, seq=seq)))
        return True


async def opened(log: MemoryLog) -> tuple[Attachment, Claim]:
    """A session that is attached and claimed."""
    ref = await log.next_incarnation("mine")
    attachment = await log.create(ref, model="m", token_digest=b"d", gateway="g", record=b"")
    claimed = await log.claim("w", ["m"])
    assert claimed is not None
    return attachment, claimed[0]


async def show(log: MemoryLog, claim: Claim, first_seq: int, *frames: object) -> None:
    """Append frames; ``None`` is a record without one."""
    records = [Record(*pack_output(1, frame=frame)) for frame in frames]  # type: ignore[arg-type]
    await log.append_output(claim, first_seq, records)


async def test_frames_carry_seq_and_the_derived_event_id_and_silent_records_are_skipped(log: MemoryLog) -> None:
    attachment, claim = await opened(log)
    closed = SessionClosed(session_id="mine", reason="session_close")
    await show(log, claim, 1, text_delta("a"), None, audio_delta(b"\x01\x02"), closed)
    ear = Ear()
    async with log.follow_output(attachment.ref) as follower:
        downlink = Downlink(ear, follower, attachment, EntryId(0, 0))  # type: ignore[arg-type]
        assert await downlink.run() == endings.CLOSED
    assert [frame["server_event_seq"] for frame in ear.heard] == [1, 3, 4]
    assert [frame["event_id"] for frame in ear.heard] == [derive_event_id("mine", 0, seq) for seq in (1, 3, 4)]
    assert ear.heard[1]["delta"] == base64.b64encode(b"\x01\x02").decode()
    assert downlink.last_seq == 4


async def test_frames_at_or_below_the_position_are_not_sent_again(log: MemoryLog) -> None:
    attachment, claim = await opened(log)
    await show(log, claim, 1, *(text_delta(str(index)) for index in range(5)))
    await log.close(claim, "gone")
    ear = Ear()
    async with log.follow_output(attachment.ref) as follower:
        ending = await Downlink(ear, follower, attachment, EntryId(0, 3)).run()  # type: ignore[arg-type]
    assert [frame["server_event_seq"] for frame in ear.heard] == [4, 5]
    assert ending.reason == "session_expired"


async def test_records_that_stand_before_the_opening_wait_for_it(log: MemoryLog) -> None:
    attachment, claim = await opened(log)
    await show(log, claim, 1, text_delta("early"))
    ear = Ear()
    async with log.follow_output(attachment.ref) as follower:
        downlink = Downlink(ear, follower, attachment, EntryId(0, 0))  # type: ignore[arg-type]
        opening = asyncio.create_task(downlink.opening())
        await asyncio.sleep(0)
        await log.checkpoint(claim, b"", opening=b"\x81\xa7session\x80")
        answer = await opening
        assert not isinstance(answer, endings.Ending)
        assert (answer.session, ear.heard) == ({}, [])
        await log.close(claim, "gone")
        await downlink.run()
    assert [frame["server_event_seq"] for frame in ear.heard] == [1]


async def test_a_session_that_ends_before_it_opened_is_an_ending(log: MemoryLog) -> None:
    attachment, claim = await opened(log)
    await log.close(claim, "gone")
    async with log.follow_output(attachment.ref) as follower:
        ending = await Downlink(Ear(), follower, attachment, EntryId(0, 0)).opening()  # type: ignore[arg-type]
    assert isinstance(ending, endings.Ending)
    assert ending.last == SessionExpired(session_id="mine", incarnation=0, reason="gone")


async def test_a_newer_socket_ends_this_one_also_while_it_opens(log: MemoryLog) -> None:
    attachment, _ = await opened(log)
    older = Attachment(attachment.ref, 0, "g")
    for phase in ("opening", "run"):
        async with log.follow_output(attachment.ref) as follower:
            ending = await getattr(Downlink(Ear(), follower, older, EntryId(0, 0)), phase)()  # type: ignore[arg-type]
        assert ending.reason == "session_replaced"


async def test_a_session_that_is_not_there_ends_at_once(log: MemoryLog) -> None:
    nowhere = Attachment(SessionRef("nobody", 0), 1, "g")
    async with log.follow_output(nowhere.ref) as follower:
        ending = await Downlink(Ear(), follower, nowhere, EntryId(0, 0)).run()  # type: ignore[arg-type]
    assert ending.reason == "session_expired"


async def test_a_peer_that_takes_no_more_stops_it(log: MemoryLog) -> None:
    attachment, claim = await opened(log)
    await show(log, claim, 1, *(text_delta(str(index)) for index in range(5)))
    async with log.follow_output(attachment.ref) as follower:
        downlink = Downlink(Ear(limit=2), follower, attachment, EntryId(0, 0))  # type: ignore[arg-type]
        with pytest.raises(SocketLost):
            await downlink.run()


async def test_a_slow_reader_gets_two_megabytes_in_order_and_holds_nobody_up(
    gateway: Gateway, worker: FakeWorker
) -> None:
    pieces, piece = 250, b"\x07" * 8192
    async with joined(gateway.url(), max_queue=1) as slow, joined(gateway.url()) as quick:
        await slow.open(session_id="slow")
        await quick.open(session_id="quick")
        for _ in range(pieces):
            await worker.show("slow", audio_delta(piece))
        await quick.say("session.heartbeat")
        await quick.hear_type("session.heartbeat_ack")
        frames = [await slow.hear() for _ in range(pieces)]
        assert [frame["server_event_seq"] for frame in frames] == list(range(2, pieces + 2))
        assert {frame["delta"] for frame in frames} == {base64.b64encode(piece).decode()}
        await slow.say("session.close")
        await slow.hear_type("session.closed")
    assert types(worker.heard["slow"])[-1] == "CloseSession"


async def test_a_client_too_far_behind_is_told_once_and_goes_on_without_seqs(log: MemoryLog) -> None:
    attachment, claim = await opened(log)
    await show(log, claim, 1, *(text_delta(str(number)) for number in range(1, 7)))
    ear = Ear()
    async with log.follow_output(attachment.ref) as follower:
        downlink = Downlink(ear, follower, attachment, EntryId(0, 2))  # type: ignore[arg-type]
        await log.trim_history(claim, input_before=EntryId(1, 0), output_before=5)
        running = asyncio.create_task(downlink.run())
        await until(lambda: downlink.last_seq == 6)
        await show(log, claim, 7, *(text_delta(str(number)) for number in range(7, 10)))
        await log.trim_history(claim, input_before=EntryId(1, 0), output_before=9)
        await log.close(claim, "gone")
        await running
    overflow = ear.heard[0]
    assert (overflow["type"], overflow["reason"]) == ("session.resync_required", "journal_overflow")
    assert (overflow["session_id"], overflow["first_available"]) == ("mine", 5)
    assert [frame["type"] for frame in ear.heard[1:]] == ["response.output_text.delta"] * 3, "told once, then live"
    assert [frame["delta"] for frame in ear.heard[1:]] == ["5", "6", "9"]
    assert not any("server_event_seq" in frame for frame in ear.heard)
    assert [frame["event_id"] for frame in ear.heard[1:]] == [derive_event_id("mine", 0, seq) for seq in (5, 6, 9)]


async def test_a_stock_client_too_far_behind_cannot_be_told_and_fails(log: MemoryLog) -> None:
    attachment, claim = await opened(log)
    await show(log, claim, 1, *(text_delta(str(number)) for number in range(1, 7)))
    ear = Ear()
    ear.dialect = "ga"
    async with log.follow_output(attachment.ref) as follower:
        downlink = Downlink(ear, follower, attachment, EntryId(0, 2))  # type: ignore[arg-type]
        await log.trim_history(claim, input_before=EntryId(1, 0), output_before=5)
        with pytest.raises(PositionGone):
            await downlink.run()
    assert ear.heard == []


async def test_frames_that_the_store_lost_and_has_again_are_no_overflow(log: MemoryLog) -> None:
    attachment, _claim = await opened(log)

    class Lost:
        """A follower that finds its position written again."""

        def start(self, after: EntryId) -> None:
            """Nothing to do."""

        def __aiter__(self) -> Lost:
            return self

        async def __anext__(self) -> object:
            raise PositionGone(4)

    ear = Ear()
    with pytest.raises(PositionGone):
        await Downlink(ear, Lost(), attachment, EntryId(1, 3)).run()  # type: ignore[arg-type]
    assert ear.heard == []


async def test_it_says_when_what_was_missed_has_been_sent_and_when_an_answer_is_under_way(log: MemoryLog) -> None:
    attachment, claim = await opened(log)
    inner, outer = ResponseObject(id="resp_2"), ResponseObject(id="resp_1")
    await show(log, claim, 1, text_delta("a"), ResponseCreated(response=outer), None)
    ear, arrived = Ear(), []
    async with log.follow_output(attachment.ref) as follower:
        downlink = Downlink(ear, follower, attachment, EntryId(0, 0))  # type: ignore[arg-type]
        running = asyncio.create_task(downlink.run(3, lambda: arrived.append(downlink.last_seq)))
        await until(lambda: bool(arrived))
        assert (arrived, downlink.answering) == ([3], True)
        await show(log, claim, 4, ResponseCreated(response=inner), ResponseDone(response=inner))
        await until(lambda: downlink.last_seq == 5)
        assert downlink.answering, "the answer around the call is not over"
        await show(log, claim, 6, ResponseDone(response=outer))
        await until(lambda: downlink.last_seq == 6)
        assert (arrived, downlink.answering) == ([3], False)
        await show(log, claim, 7, audio_delta(b"\x00\x00"))
        await until(lambda: downlink.last_seq == 7)
        assert downlink.answering, "it was taken up in the middle"
        running.cancel()
