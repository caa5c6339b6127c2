"""A snapshot stands in for the records before it: what follows leads to the same session, the same turn unheard."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import msgpack
import pybase64
import pytest

from duplex_es.log.api import Claim, EntryId, Head, Record, SessionRef
from duplex_es.log.errors import PositionGone
from duplex_es.log.memory import MemoryLog
from duplex_es.session.facts import LogCorrupt
from duplex_es.session.snapshot import SnapshotUnreadable
from duplex_es.session.state import Clock, Input, Session
from tests.session.test_recordings import RECORDINGS, read
from tests.support.states import digest_of
from tests.workers.test_recovery import ATTACHED, SOUND, Stored, echo_call, live, scripted_call
from workers.recovery import Recovered, WrittenByAnotherBuild, recover
from workers.retention import Bytes, Limits, Mark, Retention
from workers.snapshots import Standing, pack_snapshot, unpack_snapshot
from workers.utterance import UtteranceFinder

pytestmark = pytest.mark.unit
__all__ = ["live"]


@dataclass
class Told:
    """The records of one call, and logs that end after any of them."""

    bodies: list[bytes]

    async def until(self, seq: int, *snapshots: tuple[int, bytes], first: int = 1) -> tuple[MemoryLog, Claim, Head]:
        """A log that ends after ``seq``, begins with ``first`` and holds these snapshots, claimed by a successor."""
        log, ref = MemoryLog(), SessionRef("call", 0)
        await log.create(ref, model="m", token_digest=b"", gateway="g", record=b"")
        claimed = await log.claim("w1", ["m"])
        assert claimed is not None
        claim = claimed[0]
        await log.append_output(claim, 1, [Record(body) for body in self.bodies[:seq]])
        for at, packed in snapshots:
            await log.snapshot(claim, at, packed)
        await log.trim_history(claim, input_before=EntryId(0, 0), output_before=first)
        await log.release(claim)
        again = await log.claim("w2", ["m"])
        assert again is not None
        return log, *again

    async def recovered(self, seq: int, *snapshots: tuple[int, bytes], first: int = 1) -> Recovered:
        """The session as a successor finds it."""
        log, claim, head = await self.until(seq, *snapshots, first=first)
        return await recover(log, claim, head, 0)

    def decided(self) -> list[int]:
        """The seqs that end a decision: a snapshot stands nowhere else."""
        return [seq for seq, body in enumerate(self.bodies, 1) if msgpack.unpackb(body)["more"] == 0]

    async def snapshot(self, seq: int, *, ref_audio: str | None = None) -> tuple[int, bytes]:
        """The snapshot that an owner writes after ``seq``."""
        found = await self.recovered(seq)
        return seq, pack_snapshot(found.standing, ref_audio, found.retention)


async def told_by(name: str, live: dict[int, Session]) -> Told:
    """One of the calls: of two models in this process, or recorded from the cascade."""
    if name == "cascade":
        lines = read(next(path for path in RECORDINGS if path.stem == "cascade_call"))
        return Told([pybase64.b64decode(line["body"]) for line, _ in lines])
    recording = await (echo_call if name == "echo" else scripted_call)(live)
    return Told([entry.body for entry in recording.entries])


def same(one: Recovered, other: Recovered) -> None:
    """Nothing tells the two apart that a successor acts on."""
    assert digest_of(one.session) == digest_of(other.session)
    for name in ("session", "seq", "consumed", "pending", "unfinished", "unheard", "end", "unsettled"):
        assert getattr(one, name) == getattr(other, name), name
    assert one.standing.utterance.state() == other.standing.utterance.state()
    ours, theirs = one.retention.marks.newest, other.retention.marks.newest
    assert ours[1:] == theirs[1:]


@pytest.mark.parametrize("name", ["echo", "scripted", "cascade"])
async def test_from_a_snapshot_the_same_session_is_found_as_from_the_first_record_at_every_prefix(
    name: str, live: dict[int, Session]
) -> None:
    told = await told_by(name, live)
    whole = [await told.recovered(seq) for seq in range(1, len(told.bodies) + 1)]
    cut_right_after = 0
    for at in told.decided()[:: 1 if name == "scripted" else 4]:
        snapshot = await told.snapshot(at)
        for seq in range(at, min(at + 40, len(told.bodies)) + 1):
            found = await told.recovered(seq, snapshot, first=at + 1)
            same(found, whole[seq - 1])
            assert found.snapshot_seq == at
            cut_right_after += seq == at + 1 and bool(found.unfinished)
    assert cut_right_after > 3


async def test_a_snapshot_of_a_later_record_than_the_log_has_is_of_another_session(live: dict[int, Session]) -> None:
    told = await told_by("scripted", live)
    early, late = told.decided()[3], told.decided()[9]
    snapshots = [await told.snapshot(early), await told.snapshot(late)]
    found = await told.recovered(late - 1, *snapshots)
    same(found, await told.recovered(late - 1))
    assert found.snapshot_seq == early


async def test_the_silent_facts_of_a_checkpoint_come_on_top() -> None:
    stored = await Stored.new()
    await stored.write(1, ATTACHED)
    before = await stored.recover()
    await stored.log.snapshot(stored.claim, 1, pack_snapshot(before.standing, None, before.retention))
    await stored.save(1, SOUND, SOUND)
    found = await stored.recover()
    assert found.snapshot_seq == 1
    assert found.session.input.clock.samples == 3_200
    assert found.standing.session.input.clock.samples == 0, "the next record takes these facts along"
    await stored.write(2, SOUND, SOUND, consumed="1-6")
    assert (await stored.recover()).session.input.clock.samples == 3_200


# -- snapshots that cannot be read ---------------------------------------------------------------------------------


def of_another_build(packed: bytes) -> bytes:
    return bytes(msgpack.packb({**msgpack.unpackb(packed), "v": 2}))


def with_another_state(packed: bytes) -> bytes:
    plain = msgpack.unpackb(packed)
    return bytes(msgpack.packb({**plain, "session": {**plain["session"], "v": 99}}))


UNREADABLE = pytest.mark.parametrize(
    "spoil", [of_another_build, with_another_state, lambda _: b"\xc1", lambda packed: packed[:40], lambda _: b"\x80"]
)


@UNREADABLE
async def test_one_that_cannot_be_read_gives_way_to_the_one_before(
    spoil: Any, live: dict[int, Session], caplog: pytest.LogCaptureFixture
) -> None:
    told = await told_by("scripted", live)
    early, late = told.decided()[3], told.decided()[9]
    newest = (late, spoil((await told.snapshot(late))[1]))
    with caplog.at_level(logging.WARNING):
        found = await told.recovered(late + 3, await told.snapshot(early), newest, first=early + 1)
    same(found, await told.recovered(late + 3))
    assert found.snapshot_seq == early
    assert f"snapshot of seq {late} is passed over" in caplog.text


@UNREADABLE
async def test_or_to_the_records_from_the_first_on(spoil: Any, live: dict[int, Session]) -> None:
    told = await told_by("scripted", live)
    late = told.decided()[9]
    found = await told.recovered(late + 3, (late, spoil((await told.snapshot(late))[1])))
    same(found, await told.recovered(late + 3))
    assert found.snapshot_seq is None


@UNREADABLE
async def test_where_neither_is_left_another_build_has_to_read_it(spoil: Any, live: dict[int, Session]) -> None:
    told = await told_by("scripted", live)
    late = told.decided()[9]
    with pytest.raises(WrittenByAnotherBuild, match=f"before seq {late + 1} are gone"):
        await told.recovered(late + 3, (late, spoil((await told.snapshot(late))[1])), first=late + 1)


async def test_a_snapshot_whose_following_records_are_gone_is_of_no_use(live: dict[int, Session]) -> None:
    told = await told_by("scripted", live)
    early = told.decided()[3]
    with pytest.raises(PositionGone):
        await told.recovered(early + 9, await told.snapshot(early), first=early + 3)


async def test_what_another_build_recorded_is_told_from_damage() -> None:
    for body, is_foreign in [
        ({"v": 2, "at_ms": 1, "more": 0}, True),
        ({"v": 1, "at_ms": 1, "facts": [{"fact": "MoonRose"}], "more": 0}, True),
        ({"v": 1, "at_ms": 1, "facts": [{"fact": "SocketChanged", "generation": "two"}], "more": 0}, False),
        ({"v": 1, "at_ms": "noon"}, False),
        ([1, 2], False),
    ]:
        stored = await Stored.new()
        await stored.log.append_output(stored.claim, 1, [Record(msgpack.packb(body))])
        with pytest.raises(LogCorrupt) as raised:
            await stored.recover()
        assert isinstance(raised.value, WrittenByAnotherBuild) == is_foreign, body


# -- what a snapshot holds -----------------------------------------------------------------------------------------


def test_everything_in_a_snapshot_comes_back() -> None:
    standing = Standing()
    standing.session, standing.seq, standing.consumed = Session(id="s", epoch=4), 17, EntryId(2, 9)
    standing.end = "timeout"
    marks = [Mark(1_000 * n, EntryId(1, n), n, Bytes(n, 2 * n), Bytes(3 * n, 4 * n)) for n in range(1, 5)]
    retention = Retention(Limits(), marks, audio_gone=Bytes(1, 2), records_gone=Bytes(3, 4))
    found = unpack_snapshot(pack_snapshot(standing, "data:voice", retention))
    assert found.standing.session == standing.session
    assert (found.standing.seq, found.standing.consumed, found.standing.end) == (17, EntryId(2, 9), "timeout")
    assert found.ref_audio == "data:voice"
    assert list(found.marks) == marks
    assert (found.audio_gone, found.records_gone) == (Bytes(1, 2), Bytes(3, 4))


def test_a_snapshot_can_be_read_with_nothing_but_a_messagepack_reader() -> None:
    standing = Standing()
    standing.session, standing.seq = Session(id="s"), 3
    plain = msgpack.unpackb(pack_snapshot(standing, None, Retention(Limits())))
    assert plain["session"] == {"v": 1, "session": {"id": "s"}}
    assert (plain["v"], plain["seq"], plain["consumed"], plain["audio_gone"]) == (1, 3, "0-0", [0, 0])


def test_a_finder_goes_on_where_another_was() -> None:
    one = UtteranceFinder()
    for step in range(1, 60):
        clock = Clock(16_000, step * 9_000)
        one.take((), Session(input=Input(clock=clock)), EntryId(1 + step // 30, step))
    again = UtteranceFinder(one.state())
    assert again.state() == one.state()
    assert len(one.state().places) < 60
    assert one.state().settings == (Session().settings,)


def test_a_snapshot_without_a_version_is_unreadable() -> None:
    with pytest.raises(SnapshotUnreadable):
        unpack_snapshot(bytes(msgpack.packb({"seq": 1})))
