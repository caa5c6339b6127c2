"""What a socket hears of the session's output, and when it stops hearing."""

from __future__ import annotations

import asyncio
import base64
import json

import pytest

from duplex_es.log.api import Attachment, Claim, Record, SessionRef
from duplex_es.log.memory import MemoryLog
from duplex_es.protocol import (
    Frame,
    SessionClosed,
    SessionExpired,
    derive_event_id,
    encode_frame,
    pack_output,
)
from gateway import endings
from gateway.downlink import Downlink, SocketLost
from tests.gateway.stage import FakeWorker, Gateway, audio_delta, joined, text_delta, types

pytestmark = pytest.mark.e2e


class Ear:
    """A peer that keeps what it hears, and takes ``limit`` frames."""

    def __init__(self, limit: int = 1_000_000) -> None:
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
        downlink = Downlink(ear, follower, attachment, 0)  # type: ignore[arg-type]
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
        ending = await Downlink(ear, follower, attachment, 3).run()  # type: ignore[arg-type]
    assert [frame["server_event_seq"] for frame in ear.heard] == [4, 5]
    assert ending.reason == "session_expired"


async def test_records_that_stand_before_the_opening_wait_for_it(log: MemoryLog) -> None:
    attachment, claim = await opened(log)
    await show(log, claim, 1, text_delta("early"))
    ear = Ear()
    async with log.follow_output(attachment.ref) as follower:
        downlink = Downlink(ear, follower, attachment, 0)  # type: ignore[arg-type]
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
        ending = await Downlink(Ear(), follower, attachment, 0).opening()  # type: ignore[arg-type]
    assert isinstance(ending, endings.Ending)
    assert ending.last == SessionExpired(session_id="mine", incarnation=0, reason="gone")


async def test_a_newer_socket_ends_this_one_also_while_it_opens(log: MemoryLog) -> None:
    attachment, _ = await opened(log)
    older = Attachment(attachment.ref, 0, "g")
    for phase in ("opening", "run"):
        async with log.follow_output(attachment.ref) as follower:
            ending = await getattr(Downlink(Ear(), follower, older, 0), phase)()  # type: ignore[arg-type]
        assert ending.reason == "session_replaced"


async def test_a_session_that_is_not_there_ends_at_once(log: MemoryLog) -> None:
    nowhere = Attachment(SessionRef("nobody", 0), 1, "g")
    async with log.follow_output(nowhere.ref) as follower:
        ending = await Downlink(Ear(), follower, nowhere, 0).run()  # type: ignore[arg-type]
    assert ending.reason == "session_expired"


async def test_a_peer_that_takes_no_more_stops_it(log: MemoryLog) -> None:
    attachment, claim = await opened(log)
    await show(log, claim, 1, *(text_delta(str(index)) for index in range(5)))
    async with log.follow_output(attachment.ref) as follower:
        downlink = Downlink(Ear(limit=2), follower, attachment, 0)  # type: ignore[arg-type]
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
