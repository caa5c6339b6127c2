"""The log suite, third part: what is kept and let go. Positions, snapshots, trimmed history, unclaimed sessions."""

from __future__ import annotations

import asyncio

import pytest

from ..log.api import START, Attachment, Ended, EntryId, Head, Record, SessionLog, SessionRef
from ..log.errors import (
    Fenced,
    IncarnationMismatch,
    PositionAhead,
    PositionGone,
    SessionUnknown,
    TokenRefused,
)
from ..log.settings import LogSettings
from .log_stage import LogStage, eventually, ids, records, take, take_until_end


def numbered(first: int, last: int) -> list[Record]:
    """Records that say their number, with a little audio."""
    return [Record(b"%d" % number, b"pcm") for number in range(first, last + 1)]


class PositionPromises(LogStage):
    """What ``attach`` promises to a client that has frames already."""

    async def taken_up(
        self, log: SessionLog, attachment: Attachment, after_seq: int | None, following: bytes = b"token-2"
    ) -> tuple[Attachment, Head]:
        """Another socket of the session, by a client that has the frames up to ``after_seq``."""
        return await log.attach(
            attachment.ref,
            presented_digest=b"token-1",
            next_digest=following,
            gateway="gateway-2",
            record=b"attached",
            after_seq=after_seq,
        )

    async def test_a_client_goes_on_after_any_frame_that_is_there(self, log: SessionLog, model: str) -> None:
        for after_seq in (0, 2, 3, None):
            attachment, claim = await self.claimed(log, model)
            await log.append_output(claim, 1, numbered(1, 3))
            again, head = await self.taken_up(log, attachment, after_seq)
            assert (again.generation, head.output.number) == (2, 3)

    async def test_a_position_that_cannot_be_kept_is_refused_and_nothing_changes(
        self, log: SessionLog, model: str
    ) -> None:
        attachment, claim = await self.claimed(log, model)
        await log.append_output(claim, 1, numbered(1, 9))
        await log.trim_history(claim, input_before=START, output_before=4)
        before = await log.head(attachment.ref.session_id)
        for after_seq, error in ((0, PositionGone), (2, PositionGone), (10, PositionAhead)):
            with pytest.raises(error):
                await self.taken_up(log, attachment, after_seq)
        assert await log.head(attachment.ref.session_id) == before
        assert await self.raw_ids(log, attachment.ref, "in") == ["1-0"]
        await log.append_input(attachment, 1, records(b"still mine"))
        assert (await self.taken_up(log, attachment, 3))[0].generation == 2

    async def test_a_refusal_says_what_is_left(self, log: SessionLog, model: str) -> None:
        attachment, claim = await self.claimed(log, model)
        await log.append_output(claim, 1, numbered(1, 9))
        await log.trim_history(claim, input_before=START, output_before=4)
        with pytest.raises(PositionGone) as gone:
            await self.taken_up(log, attachment, 1)
        assert gone.value.first_available == 4
        with pytest.raises(PositionAhead) as ahead:
            await self.taken_up(log, attachment, 12)
        assert ahead.value.last == 9

    async def test_a_client_cannot_go_back_behind_what_it_acknowledged(self, log: SessionLog, model: str) -> None:
        attachment, claim = await self.claimed(log, model)
        await log.append_output(claim, 1, numbered(1, 9))
        await log.acknowledge(attachment, 5)
        with pytest.raises(PositionGone) as gone:
            await self.taken_up(log, attachment, 4)
        assert gone.value.first_available == 6
        assert (await self.taken_up(log, attachment, 5))[0].generation == 2

    async def test_a_client_cannot_go_back_behind_audio_that_was_dropped(self, log: SessionLog, model: str) -> None:
        attachment, claim = await self.claimed(log, model)
        await log.append_output(claim, 1, [*numbered(1, 3), Record(b"4"), Record(b"5"), *numbered(6, 8)])
        await log.trim_audio(claim, input_before=START, output_before=6)
        with pytest.raises(PositionGone) as gone:
            await self.taken_up(log, attachment, 2)
        assert gone.value.first_available == 4
        assert (await self.taken_up(log, attachment, 3))[0].generation == 2

    async def test_the_token_is_looked_at_before_the_position(self, log: SessionLog, model: str) -> None:
        attachment, claim = await self.claimed(log, model)
        await log.append_output(claim, 1, numbered(1, 3))
        for ref, digest, error in (
            (attachment.ref, b"wrong", TokenRefused),
            (SessionRef(attachment.ref.session_id, 7), b"token-1", IncarnationMismatch),
            (SessionRef("never-seen", 0), b"token-1", SessionUnknown),
        ):
            with pytest.raises(error):
                await log.attach(
                    ref, presented_digest=digest, next_digest=b"n", gateway="g", record=b"", after_seq=99
                )

    async def test_the_same_attach_again_is_not_judged_again(self, log: SessionLog, model: str) -> None:
        attachment, claim = await self.claimed(log, model)
        await log.append_output(claim, 1, numbered(1, 5))
        first, _ = await self.taken_up(log, attachment, 2)
        await log.trim_history(claim, input_before=START, output_before=5)
        again, _ = await self.taken_up(log, attachment, 2)
        assert again == first


class HistoryPromises(LogStage):
    """What ``snapshot``, ``trim_history``, ``expire_unclaimed`` and ``persisted`` promise."""

    async def test_the_newest_snapshot_is_read_and_the_one_before_it(self, log: SessionLog, model: str) -> None:
        attachment, claim = await self.claimed(log, model)
        assert await log.read_snapshot(attachment.ref) is None
        for seq, snapshot in ((0, b"zero"), (5, b"five\x00\xff"), (9, b"nine")):
            await log.snapshot(claim, seq, snapshot)
            assert await log.read_snapshot(attachment.ref) == (seq, snapshot)
        assert await log.read_snapshot(attachment.ref, below_seq=9) == (5, b"five\x00\xff")
        assert await log.read_snapshot(attachment.ref, below_seq=5) is None

    async def test_an_older_snapshot_changes_nothing_and_the_same_seq_replaces(
        self, log: SessionLog, model: str
    ) -> None:
        attachment, claim = await self.claimed(log, model)
        await log.snapshot(claim, 5, b"five")
        await log.snapshot(claim, 9, b"nine")
        await log.snapshot(claim, 7, b"seven")
        await log.snapshot(claim, 9, b"nine again")
        assert await log.read_snapshot(attachment.ref) == (9, b"nine again")
        assert await log.read_snapshot(attachment.ref, below_seq=9) == (5, b"five")

    async def test_snapshots_and_checkpoints_do_not_touch_each_other(self, log: SessionLog, model: str) -> None:
        attachment, claim = await self.claimed(log, model)
        await log.snapshot(claim, 5, b"five")
        await log.checkpoint(claim, b"checkpoint")
        assert (await log.head(attachment.ref.session_id)).checkpoint == b"checkpoint"
        assert await log.read_snapshot(attachment.ref) == (5, b"five")

    async def test_a_fenced_worker_keeps_and_drops_nothing(self, log: SessionLog, model: str) -> None:
        attachment, old = await self.claimed(log, model)
        await log.append_output(old, 1, numbered(1, 3))
        await log.release(old)
        await self.must_claim(log, "worker-2", model)
        for attempt in (
            log.snapshot(old, 3, b"late"),
            log.trim_history(old, input_before=EntryId(9, 9), output_before=9),
        ):
            with pytest.raises(Fenced):
                await attempt
        assert await log.read_snapshot(attachment.ref) is None
        assert (await log.head(attachment.ref.session_id)).first_seq == 1

    async def test_the_snapshots_of_an_unknown_session_are_not_read(self, log: SessionLog, model: str) -> None:
        attachment, claim = await self.claimed(log, model)
        await log.snapshot(claim, 5, b"five")
        await self.raw_erase(log, attachment.ref)
        with pytest.raises(SessionUnknown):
            await log.read_snapshot(attachment.ref)
        with pytest.raises(SessionUnknown):
            await log.snapshot(claim, 6, b"six")

    async def test_history_is_trimmed_exactly(self, log: SessionLog, model: str) -> None:
        attachment, claim = await self.claimed(log, model)
        await log.append_output(claim, 1, numbered(1, 9))
        await log.append_input(attachment, 1, numbered(1, 6))
        await log.trim_history(claim, input_before=EntryId(1, 4), output_before=6)
        assert await self.raw_ids(log, attachment.ref, "out") == ["1-6", "1-7", "1-8", "1-9"]
        assert await self.raw_ids(log, attachment.ref, "out-audio") == ["1-6", "1-7", "1-8", "1-9"]
        assert await self.raw_ids(log, attachment.ref, "in") == ["1-4", "1-5", "1-6"]
        assert await self.raw_ids(log, attachment.ref, "in-audio") == ["1-4", "1-5", "1-6"]
        head = await log.head(attachment.ref.session_id)
        assert (head.first_seq, head.output, head.input) == (6, EntryId(1, 9), EntryId(1, 6))
        assert ids(await log.read_output(attachment.ref, 5)) == ["1-6", "1-7", "1-8", "1-9"]
        for after_seq in (0, 4):
            with pytest.raises(PositionGone) as gone:
                await log.read_output(attachment.ref, after_seq)
            assert gone.value.first_available == 6

    async def test_trimming_again_or_to_a_passed_position_changes_nothing(self, log: SessionLog, model: str) -> None:
        attachment, claim = await self.claimed(log, model)
        await log.append_output(claim, 1, numbered(1, 9))
        await log.append_input(attachment, 1, numbered(1, 6))
        await log.trim_history(claim, input_before=EntryId(1, 4), output_before=6)
        before = await log.head(attachment.ref.session_id)
        for input_before, output_before in ((EntryId(1, 4), 6), (EntryId(1, 2), 3), (START, 0)):
            await log.trim_history(claim, input_before=input_before, output_before=output_before)
        assert await log.head(attachment.ref.session_id) == before
        assert ids(await log.read_input(attachment.ref, EntryId(1, 3))) == ["1-4", "1-5", "1-6"]

    async def test_a_log_trimmed_to_nothing_goes_on_with_its_numbers(self, log: SessionLog, model: str) -> None:
        attachment, claim = await self.claimed(log, model)
        await log.append_output(claim, 1, numbered(1, 3))
        await log.append_input(attachment, 1, numbered(1, 3))
        for before in (4, 99):
            await log.trim_history(claim, input_before=EntryId(9, 9), output_before=before)
            head = await log.head(attachment.ref.session_id)
            assert (head.first_seq, head.output, head.input) == (4, EntryId(1, 3), EntryId(1, 3))
        await log.release(claim)
        claim, head = await self.must_claim(log, "worker-2", model)
        assert (head.first_seq, head.output) == (4, EntryId(2, 3))
        await log.trim_history(claim, input_before=START, output_before=99)
        await log.release(claim)
        claim, head = await self.must_claim(log, "worker-3", model)
        assert (head.first_seq, head.output) == (4, EntryId(3, 3))
        await log.append_output(claim, 4, numbered(4, 4))
        await log.append_input(attachment, 4, numbered(4, 4))
        assert ids(await log.read_output(attachment.ref, 3)) == ["3-4"]
        assert ids(await log.read_input(attachment.ref, EntryId(1, 3))) == ["1-4"]
        with pytest.raises(PositionGone):
            await log.read_output(attachment.ref, 2)

    async def test_trimming_follows_the_seqs_through_claims(self, log: SessionLog, model: str) -> None:
        attachment, claim = await self.claimed(log, model)
        await log.append_output(claim, 1, numbered(1, 2))
        for fence in range(2, 8):
            await log.release(claim)
            claim, head = await self.must_claim(log, f"worker-{fence}", model)
            if fence % 2:  # every second claim writes nothing
                first = head.output.number + 1
                await log.append_output(claim, first, numbered(first, first + 1))
        for before in range(1, 9):
            await log.trim_history(claim, input_before=START, output_before=before)
            head = await log.head(attachment.ref.session_id)
            assert (head.first_seq, head.output.number) == (before, 8)
            assert [entry.body for entry in await log.read_output(attachment.ref, before - 1)] == [
                b"%d" % number for number in range(before, 9)
            ]

    async def test_input_before_a_trimmed_position_is_said_to_be_gone(self, log: SessionLog, model: str) -> None:
        attachment, claim = await self.claimed(log, model)
        await log.append_input(attachment, 1, numbered(1, 3))
        second = await self.attached(log, attachment.ref, b"token-1", b"token-2")
        await log.append_input(second, 1, numbered(1, 3))
        # Nothing in the ids of what is left tells of the hole.
        await log.trim_history(claim, input_before=EntryId(2, 0), output_before=0)
        with pytest.raises(PositionGone) as gone:
            await log.read_input(attachment.ref, EntryId(1, 2))
        assert gone.value.trimmed == EntryId(1, 3)
        assert ids(await log.read_input(attachment.ref, gone.value.trimmed)) == ["2-0", "2-1", "2-2", "2-3"]
        assert ids(await log.read_input_back(attachment.ref)) == ["2-3", "2-2", "2-1", "2-0"]
        async with log.follow_input(attachment.ref) as follower:
            follower.start(EntryId(1, 2))
            with pytest.raises(PositionGone):
                await take(follower, 1)
        async with log.follow_input(attachment.ref) as follower:
            follower.start(EntryId(1, 3))
            assert ids(await take(follower, 4)) == ["2-0", "2-1", "2-2", "2-3"]

    async def test_a_slow_reader_whose_next_frames_were_trimmed_is_told(self, log: SessionLog, model: str) -> None:
        attachment, claim = await self.claimed(log, model)
        pcm = bytes(20_000)
        async with log.follow_output(attachment.ref) as follower, log.follow_output(attachment.ref) as other:
            for one in (follower, other):
                one.start(START)
            await log.append_output(claim, 1, records(b"1"))
            for one in (follower, other):
                assert ids(await take(one, 1)) == ["1-1"]
            for seq in range(2, 202, 10):  # 4 MB while nobody reads
                await log.append_output(claim, seq, [Record(b"%d" % n, pcm) for n in range(seq, seq + 10)])
            await log.trim_history(claim, input_before=START, output_before=150)
            with pytest.raises(PositionGone):
                await take(follower, 200)
            await log.trim_history(claim, input_before=START, output_before=202)
            await log.close(claim, "done")
            with pytest.raises(PositionGone):
                await take_until_end(other)

    async def test_a_session_that_nobody_claims_is_closed(self, hasty_log: SessionLog, model: str) -> None:
        waiting = await self.created(hasty_log, model)
        found = await eventually(lambda: hasty_log.expire_unclaimed(0.05), lambda refs: waiting.ref in refs)
        assert found.count(waiting.ref) == 1
        assert waiting.ref not in await hasty_log.expire_unclaimed(0.05)
        assert await hasty_log.claim("worker-1", [model]) is None
        with pytest.raises(SessionUnknown):
            await hasty_log.append_input(waiting, 1, records(b"late"))

    async def test_the_reason_reaches_those_who_follow(self, log: SessionLog, model: str) -> None:
        waiting = await self.created(log, model)
        await log.detach(waiting, b"left")
        async with log.follow_output(waiting.ref) as follower:
            follower.start(START)
            await eventually(lambda: log.expire_unclaimed(0.0), lambda refs: waiting.ref in refs)
            assert (await take_until_end(follower))[-1] == Ended("unclaimed")
        assert (await log.head(waiting.ref.session_id)).state == "closed"

    async def test_a_session_that_is_held_or_attached_is_not_closed(self, log: SessionLog, model: str) -> None:
        attached = await self.created(log, model)
        held = await self.created(log, f"{model}-2")
        claim, _ = await self.must_claim(log, "worker-1", f"{model}-2")
        await log.detach(held, b"left")
        released = await self.created(log, f"{model}-3")
        free, _ = await self.must_claim(log, "worker-1", f"{model}-3")
        await log.detach(released, b"left")
        await log.release(free)
        mine = {attached.ref, held.ref, released.ref}
        assert not mine & set(await log.expire_unclaimed(60.0))
        closed = await eventually(lambda: log.expire_unclaimed(0.0), lambda refs: released.ref in refs)
        assert mine & set(closed) == {released.ref}
        await log.append_output(claim, 1, records(b"goes on"))
        await log.append_input(attached, 1, records(b"goes on"))

    async def test_a_session_whose_worker_vanished_is_closed_at_last(self, hasty_log: SessionLog, model: str) -> None:
        attachment, claim = await self.claimed(hasty_log, model)
        await eventually(lambda: hasty_log.expire_unclaimed(0.05), lambda refs: attachment.ref in refs)
        for attempt in (
            hasty_log.append_output(claim, 1, records(b"late")),
            hasty_log.snapshot(claim, 1, b"late"),
        ):
            with pytest.raises(SessionUnknown):
                await attempt

    async def test_without_a_level_everything_counts_as_safe(self, model: str) -> None:
        log = await self.make_log(LogSettings(durability="memory"))
        attachment, claim = await self.claimed(log, model)
        await log.append_output(claim, 1, numbered(1, 3))
        await asyncio.wait_for(log.persisted(attachment.ref), 30)
        await log.close_connections()
