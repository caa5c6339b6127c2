"""The log suite, fourth part: what an operator may do with a session whatever its owner does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable

import pytest

from ..log.api import START, Attachment, Claim, Ended, Entry, EntryId, Keeping, Life, Record, SessionLog
from ..log.errors import LogError, SessionExists, SessionUnknown
from ..log.keeping import keeping_of
from .log_stage import LogStage, eventually, records, take_until_end


async def given(entries: Iterable[Entry]) -> AsyncIterator[Entry]:
    """``entries``, one after the other."""
    for entry in entries:
        yield entry


class KeepingPromises(LogStage):
    """What ``Keeping`` promises."""

    async def spoken(self, log: SessionLog, model: str) -> tuple[Attachment, Claim]:
        """An open session with three records in each direction, with audio."""
        attachment, claim = await self.claimed(log, model)
        await log.append_input(attachment, 1, [Record(b"i%d" % n, b"caller") for n in (1, 2, 3)])
        await log.append_output(claim, 1, [Record(b"o%d" % n, b"answer") for n in (1, 2, 3)])
        await log.snapshot(claim, 2, b"state")
        await log.checkpoint(claim, b"checkpoint", opening=b"opened")
        return attachment, claim

    async def over(self, log: SessionLog, model: str) -> tuple[Keeping, Life]:
        """The same, closed."""
        _, claim = await self.spoken(log, model)
        await log.close(claim, "done")
        keeping = keeping_of(log)
        (life,) = await keeping.lives(claim.ref.session_id)
        return keeping, life

    async def test_a_past_life_is_listed_with_where_it_stood(self, log: SessionLog, model: str) -> None:
        keeping, first = await self.over(log, model)
        await self.created(log, model, first.head.ref.session_id)
        lives = {life.head.ref.incarnation: life for life in await keeping.lives(first.head.ref.session_id)}
        past = lives[0]
        assert sorted(lives) == [0, 1]
        assert (past.created_ms, past.head.state, past.head.opening) == (first.created_ms, "closed", b"opened")
        for name in ("model", "input", "output", "first_seq", "fence", "worker", "generation", "gateway"):
            assert getattr(past.head, name) == getattr(first.head, name), name
        assert {life.head.ref for life in await keeping.lives()} >= {life.head.ref for life in lives.values()}
        assert [life.head.ref for life in await keeping.lives(first.head.ref.session_id, closed=True)] == [
            past.head.ref
        ]

    async def test_an_operator_ends_a_session_whoever_holds_it(self, log: SessionLog, model: str) -> None:
        attachment, claim = await self.spoken(log, model)
        keeping = keeping_of(log)
        async with log.follow_output(claim.ref) as follower:
            follower.start(START)
            await keeping.terminate(claim.ref, "erased")
            assert (await take_until_end(follower))[-1] == Ended("erased")
        await keeping.terminate(claim.ref, "again")
        for write in (log.append_output(claim, 4, records(b"x")), log.append_input(attachment, 4, records(b"x"))):
            with pytest.raises(LogError):
                await write
        assert (await log.head(claim.ref.session_id)).state == "closed"
        with pytest.raises(SessionUnknown):
            await keeping.terminate(await log.next_incarnation("nobody"), "x")

    async def test_an_open_session_is_neither_shortened_nor_replaced_nor_erased(
        self, log: SessionLog, model: str
    ) -> None:
        _, claim = await self.spoken(log, model)
        keeping = keeping_of(log)
        (life,) = await keeping.lives(claim.ref.session_id)
        for refused in (
            keeping.shorten(claim.ref, 0.01),
            keeping.erase(claim.ref),
            keeping.replace(life, given(()), given(())),
        ):
            with pytest.raises(SessionExists):
                await refused
        await log.append_output(claim, 4, records(b"o4"))
        assert len(await log.read_output(claim.ref, 0)) == 4

    async def test_a_closed_session_expires_earlier_but_never_later(self, log: SessionLog, model: str) -> None:
        keeping, life = await self.over(log, model)
        ref = life.head.ref
        await keeping.shorten(ref, 0.2)
        await keeping.shorten(ref, 60)

        async def gone() -> bool:
            try:
                await log.read_input(ref, START)
            except SessionUnknown:
                return True
            return False

        async with asyncio.timeout(30):
            await eventually(gone)
        with pytest.raises(SessionUnknown):
            await keeping.shorten(ref, 1)

    async def test_what_replaces_a_session_is_all_that_is_left_of_it(self, log: SessionLog, model: str) -> None:
        keeping, life = await self.over(log, model)
        ref = life.head.ref
        said = [Entry(EntryId(1, 0), b"created"), Entry(EntryId(1, 2), b"I2", b"quiet")]
        shown = [Entry(EntryId(1, 1), b"O1"), Entry(EntryId(1, 2), b"O2"), Entry(EntryId(1, 3), b"O3")]
        await keeping.replace(life, given(said), given(shown), (1, b"less"))
        assert await log.read_input(ref, START) == said
        assert await log.read_output(ref, 0) == shown
        assert await log.read_snapshot(ref) == (1, b"less")
        head = await log.head(ref.session_id)
        assert (head.output, head.input, head.opening) == (life.head.output, life.head.input, b"opened")
        assert head.checkpoint is None
        assert await self.raw_ids(log, ref, "in-audio") == ["1-2"]
        assert await self.raw_ids(log, ref, "out-audio") == []
        await keeping.shorten(ref, 60)

    async def test_a_past_life_is_replaced_and_erased_by_itself(self, log: SessionLog, model: str) -> None:
        keeping, life = await self.over(log, model)
        ref = life.head.ref
        attachment = await self.created(log, model, ref.session_id)
        await keeping.replace(life, given([Entry(EntryId(1, 0), b"created")]), given([Entry(EntryId(1, 3), b"O3")]))
        assert [entry.body for entry in await log.read_output(ref, 2)] == [b"O3"]
        await keeping.erase(ref)
        with pytest.raises(SessionUnknown):
            await log.read_input(ref, START)
        assert [one.head.ref for one in await keeping.lives(ref.session_id)] == [attachment.ref]
        await log.append_input(attachment, 1, records(b"goes on"))

    async def test_an_erased_session_is_gone_at_once(self, log: SessionLog, model: str) -> None:
        keeping, life = await self.over(log, model)
        ref = life.head.ref
        await keeping.erase(ref)
        assert await keeping.lives(ref.session_id) == []
        with pytest.raises(SessionUnknown):
            await log.head(ref.session_id)
        with pytest.raises(SessionUnknown):
            await keeping.erase(ref)

    async def test_notes_outlive_the_session_in_their_order_each_once(self, log: SessionLog, model: str) -> None:
        keeping, life = await self.over(log, model)
        session_id = life.head.ref.session_id
        for note in (b"first", b"second", b"first"):
            await keeping.note(session_id, note)
        await keeping.erase(life.head.ref)
        assert await keeping.notes(session_id) == [b"first", b"second"]
        assert await keeping.notes(f"{session_id}-other") == []
