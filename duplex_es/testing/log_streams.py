"""The log suite, second half: what is written and read. Appending, audio, reading back, following."""

from __future__ import annotations

import asyncio

import pytest

from ..log.api import START, AttachmentRaised, Ended, Entry, EntryId, Opened, Record, SessionLog, SessionRef
from ..log.errors import Fenced, PositionGone, SessionUnknown, TailLost
from .log_stage import LogStage, eventually, ids, records, take, take_until_end


class AppendingPromises(LogStage):
    """What ``append_input``, ``append_output`` and ``trim_audio`` promise."""

    async def test_entries_carry_the_generation_and_the_number(self, log: SessionLog, model: str) -> None:
        attachment, claim = await self.claimed(log, model)
        await log.append_input(attachment, 1, records(b"a", b"b"))
        await log.append_input(attachment, 3, records(b"c"))
        await log.append_output(claim, 1, records(b"x", b"y"))
        assert await self.raw_ids(log, attachment.ref, "in") == ["1-0", "1-1", "1-2", "1-3"]
        assert await self.raw_ids(log, attachment.ref, "out") == ["1-0", "1-1", "1-2"]
        assert await self.raw_entry(log, attachment.ref, "in", "1-3") == b"c"
        assert await self.raw_entry(log, attachment.ref, "out", "1-2") == b"y"
        head = await log.head(attachment.ref.session_id)
        assert (head.input, head.output) == (EntryId(1, 3), EntryId(1, 2))

    async def test_input_is_read_backwards_from_its_end_or_from_an_entry(self, log: SessionLog, model: str) -> None:
        attachment, _ = await self.claimed(log, model)
        await log.append_input(attachment, 1, [Record(b"a", b"pcm"), Record(b"b")])
        second = await self.attached(log, attachment.ref, b"token-1", b"token-2")
        await log.append_input(second, 1, records(b"c"))
        back = await log.read_input_back(attachment.ref)
        assert ids(back) == ["2-1", "2-0", "1-2", "1-1", "1-0"]
        assert [entry.audio for entry in back] == [None] * 5
        assert ids(await log.read_input_back(attachment.ref, EntryId(1, 2), limit=1)) == ["1-1"]
        assert await log.read_input_back(attachment.ref, EntryId(1, 0)) == []
        with pytest.raises(SessionUnknown):
            await log.read_input_back(SessionRef("nobody", 0))

    async def test_the_input_index_restarts_and_the_seq_does_not(self, log: SessionLog, model: str) -> None:
        attachment, claim = await self.claimed(log, model)
        await log.append_input(attachment, 1, records(b"a"))
        await log.append_output(claim, 1, records(b"x", b"y"))
        second = await self.attached(log, attachment.ref, b"token-1", b"token-2")
        await log.append_input(second, 1, records(b"b"))
        await log.release(claim)
        successor, head = await self.must_claim(log, "worker-2", model)
        assert head.output.number == 2
        await log.append_output(successor, 3, records(b"z"))
        assert await self.raw_ids(log, attachment.ref, "in") == ["1-0", "1-1", "2-0", "2-1"]
        assert await self.raw_ids(log, attachment.ref, "out") == ["1-0", "1-1", "1-2", "2-0", "2-3"]

    async def test_a_repeat_is_not_written_again(self, log: SessionLog, model: str) -> None:
        attachment, claim = await self.claimed(log, model)
        for _ in range(2):
            await log.append_input(attachment, 1, [Record(b"a", b"pcm"), Record(b"b")])
            await log.append_output(claim, 1, [Record(b"x", b"pcm"), Record(b"y")])
        await log.append_output(claim, 2, records(b"other", b"z"))
        assert await self.raw_ids(log, attachment.ref, "in") == ["1-0", "1-1", "1-2"]
        assert await self.raw_ids(log, attachment.ref, "in-audio") == ["1-1"]
        assert await self.raw_ids(log, attachment.ref, "out") == ["1-0", "1-1", "1-2", "1-3"]
        assert await self.raw_ids(log, attachment.ref, "out-audio") == ["1-1"]
        assert await self.raw_entry(log, attachment.ref, "out", "1-2") == b"y"

    async def test_a_hole_is_never_written(self, log: SessionLog, model: str) -> None:
        attachment, claim = await self.claimed(log, model)
        await log.append_output(claim, 1, records(b"x"))
        with pytest.raises(TailLost) as lost:
            await log.append_output(claim, 3, records(b"z"))
        assert lost.value.head_seq == 1
        with pytest.raises(TailLost) as lost:
            await log.append_input(attachment, 2, records(b"b"))
        assert lost.value.head_seq == 0
        await log.append_output(claim, 2, records(b"y"))
        assert await self.raw_ids(log, attachment.ref, "out") == ["1-0", "1-1", "1-2"]
        assert await self.raw_ids(log, attachment.ref, "in") == ["1-0"]

    async def test_numbers_start_at_1(self, log: SessionLog, model: str) -> None:
        attachment, claim = await self.claimed(log, model)
        for attempt in (log.append_input(attachment, 0, records(b"a")), log.append_output(claim, 0, records(b"a"))):
            with pytest.raises(ValueError):
                await attempt
        await log.append_input(attachment, 1, [])
        await log.append_output(claim, 1, [])

    async def test_the_appends_of_one_caller_after_the_other_keep_their_order(
        self, log: SessionLog, model: str
    ) -> None:
        attachment, claim = await self.claimed(log, model)
        await asyncio.gather(
            *(log.append_output(claim, seq, records(b"%d" % seq)) for seq in range(1, 41)),
            *(log.append_input(attachment, index, records(b"%d" % index)) for index in range(1, 41)),
        )
        found = await log.read_output(attachment.ref, 0)
        assert [entry.body for entry in found] == [b"%d" % seq for seq in range(1, 41)]
        assert len(await log.read_input(attachment.ref, EntryId(1, 0))) == 40

    async def test_audio_lies_beside_its_record_under_the_same_id(self, log: SessionLog, model: str) -> None:
        attachment, claim = await self.claimed(log, model)
        pcm = bytes(range(256)) * 30
        await log.append_input(attachment, 1, [Record(b"a", pcm), Record(b"b"), Record(b"c", b"")])
        await log.append_output(claim, 1, [Record(b"x"), Record(b"y", pcm)])
        assert await self.raw_ids(log, attachment.ref, "in-audio") == ["1-1", "1-3"]
        assert await self.raw_entry(log, attachment.ref, "in-audio", "1-1") == pcm
        assert await self.raw_entry(log, attachment.ref, "in", "1-1") == b"a"
        assert [entry.audio for entry in await log.read_input(attachment.ref, EntryId(1, 0))] == [pcm, None, b""]
        assert [entry.audio for entry in await log.read_output(attachment.ref, 0)] == [None, pcm]
        silent = await log.read_output(attachment.ref, 0, audio=False)
        assert [(entry.body, entry.audio) for entry in silent] == [(b"x", None), (b"y", None)]

    async def test_audio_is_trimmed_exactly_and_history_stays(self, log: SessionLog, model: str) -> None:
        attachment, old = await self.claimed(log, model)
        await log.append_output(old, 1, [Record(b"%d" % n, b"pcm") for n in range(1, 6)])
        await log.release(old)
        claim, _ = await self.must_claim(log, "worker-2", model)
        await log.append_output(claim, 6, [Record(b"%d" % n, b"pcm") for n in range(6, 11)])
        await log.append_input(attachment, 1, [Record(b"a", b"pcm") for _ in range(5)])
        await log.trim_audio(claim, input_before=EntryId(1, 4), output_before=3)
        assert await self.raw_ids(log, attachment.ref, "in-audio") == ["1-4", "1-5"]
        assert (await self.raw_ids(log, attachment.ref, "out-audio"))[0] == "1-3"
        await log.trim_audio(claim, input_before=EntryId(0, 0), output_before=7)
        assert await self.raw_ids(log, attachment.ref, "out-audio") == ["2-7", "2-8", "2-9", "2-10"]
        found = await log.read_output(attachment.ref, 0)
        assert [entry.audio for entry in found] == [None] * 6 + [b"pcm"] * 4
        assert [entry.body for entry in found] == [b"%d" % n for n in range(1, 11)]
        await log.append_output(claim, 11, [Record(b"11", b"pcm")])
        assert (await log.head(attachment.ref.session_id)).first_seq == 1

    async def test_an_unknown_session_takes_no_append(self, log: SessionLog, model: str) -> None:
        attachment, claim = await self.claimed(log, model)
        await self.raw_erase(log, attachment.ref)
        with pytest.raises(SessionUnknown):
            await log.append_input(attachment, 1, records(b"a"))
        with pytest.raises(SessionUnknown):
            await log.append_output(claim, 1, records(b"a"))


class ReadingPromises(LogStage):
    """What ``read_output`` and ``read_input`` promise."""

    async def test_reading_goes_on_after_a_seq_across_claims(self, log: SessionLog, model: str) -> None:
        attachment, claim = await self.claimed(log, model)
        await log.append_output(claim, 1, records(b"1", b"2", b"3"))
        for _ in range(2):  # a claim that writes nothing must not get in the way
            await log.release(claim)
            claim, _ = await self.must_claim(log, "worker-2", model)
        await log.append_output(claim, 4, records(b"4", b"5"))
        await log.release(claim)
        claim, _ = await self.must_claim(log, "worker-3", model)
        await log.append_output(claim, 6, records(b"6"))
        for after in range(7):
            found = await log.read_output(attachment.ref, after)
            assert [entry.id.number for entry in found] == list(range(after + 1, 7))
            assert [entry.body for entry in found] == [b"%d" % n for n in range(after + 1, 7)]
        assert await log.read_output(attachment.ref, 99) == []

    async def test_reading_is_limited(self, log: SessionLog, model: str) -> None:
        attachment, claim = await self.claimed(log, model)
        await log.append_output(claim, 1, records(*(b"%d" % n for n in range(1, 31))))
        await log.append_input(attachment, 1, records(*(b"%d" % n for n in range(1, 31))))
        assert ids(await log.read_output(attachment.ref, 10, limit=3)) == ["1-11", "1-12", "1-13"]
        assert ids(await log.read_output(attachment.ref, 0, limit=1)) == ["1-1"]
        assert ids(await log.read_input(attachment.ref, START, limit=3)) == ["1-0", "1-1", "1-2"]

    async def test_input_is_read_with_the_records_of_attachments(self, log: SessionLog, model: str) -> None:
        attachment, _ = await self.claimed(log, model)
        await log.append_input(attachment, 1, records(b"a"))
        second = await self.attached(log, attachment.ref, b"token-1", b"token-2")
        await log.append_input(second, 1, records(b"b"))
        assert ids(await log.read_input(attachment.ref, START)) == ["1-0", "1-1", "2-0", "2-1"]
        assert ids(await log.read_input(attachment.ref, EntryId(1, 1))) == ["2-0", "2-1"]
        assert await log.read_input(attachment.ref, EntryId(2, 1)) == []

    async def test_a_trimmed_position_is_said_to_be_gone(self, log: SessionLog, model: str) -> None:
        attachment, claim = await self.claimed(log, model)
        await log.append_output(claim, 1, records(*(b"%d" % n for n in range(1, 11))))
        await self.raw_trim(log, attachment.ref, "out", "1-6")
        assert (await log.head(attachment.ref.session_id)).first_seq == 6
        assert (await log.head(attachment.ref.session_id)).output == EntryId(1, 10)
        for after in (0, 4):
            with pytest.raises(PositionGone) as gone:
                await log.read_output(attachment.ref, after)
            assert gone.value.first_available == 6
        assert ids(await log.read_output(attachment.ref, 5)) == [f"1-{n}" for n in range(6, 11)]
        async with log.follow_output(attachment.ref) as follower:
            follower.start(EntryId(1, 4))
            with pytest.raises(PositionGone):
                await take(follower, 1)

    async def test_a_log_trimmed_to_nothing_still_knows_its_last_seq(self, log: SessionLog, model: str) -> None:
        attachment, claim = await self.claimed(log, model)
        await log.append_output(claim, 1, records(b"1", b"2"))
        await self.raw_trim(log, attachment.ref, "out", "1-3")
        head = await log.head(attachment.ref.session_id)
        assert (head.output, head.first_seq) == (EntryId(1, 2), 3)
        assert await log.read_output(attachment.ref, 2) == []
        await log.append_output(claim, 3, records(b"3"))
        assert ids(await log.read_output(attachment.ref, 2)) == ["1-3"]

    async def test_reading_an_unknown_session_is_refused(self, log: SessionLog, model: str) -> None:
        attachment, _ = await self.claimed(log, model)
        await self.raw_erase(log, attachment.ref)
        with pytest.raises(SessionUnknown):
            await log.read_output(attachment.ref, 0)
        with pytest.raises(SessionUnknown):
            await log.read_input(attachment.ref, START)


class FollowingPromises(LogStage):
    """What ``follow_output`` and ``follow_input`` promise."""

    async def test_a_follower_gets_what_was_and_what_comes(self, log: SessionLog, model: str) -> None:
        attachment, claim = await self.claimed(log, model)
        await log.append_output(claim, 1, [Record(b"1"), Record(b"2", b"pcm")])
        async with log.follow_output(attachment.ref) as follower:
            await log.append_output(claim, 3, records(b"3"))
            follower.start(EntryId(0, 1))
            assert [(e.body, e.audio) for e in await take(follower, 2)] == [(b"2", b"pcm"), (b"3", None)]
            await log.append_output(claim, 4, [Record(b"4", b"more"), Record(b"5", b"")])
            assert [(e.body, e.audio) for e in await take(follower, 2)] == [(b"4", b"more"), (b"5", b"")]

    async def test_two_followers_each_get_everything(self, log: SessionLog, model: str) -> None:
        attachment, claim = await self.claimed(log, model)
        async with log.follow_output(attachment.ref) as one, log.follow_output(attachment.ref) as two:
            one.start(START)
            two.start(START)
            await log.append_output(claim, 1, records(b"1", b"2"))
            assert ids(await take(one, 2)) == ids(await take(two, 2)) == ["1-1", "1-2"]

    async def test_a_follower_goes_on_under_the_next_claim(self, log: SessionLog, model: str) -> None:
        attachment, claim = await self.claimed(log, model)
        async with log.follow_output(attachment.ref) as follower:
            follower.start(START)
            await log.append_output(claim, 1, records(b"1"))
            assert ids(await take(follower, 1)) == ["1-1"]
            await log.release(claim)
            successor, _ = await self.must_claim(log, "worker-2", model)
            with pytest.raises(Fenced):
                await log.append_output(claim, 2, records(b"late"))
            await log.append_output(successor, 2, records(b"2"))
            (entry,) = await take(follower, 1)
            assert (str(entry.id), entry.body) == ("2-2", b"2")

    async def test_input_is_followed_through_attachments(self, log: SessionLog, model: str) -> None:
        attachment, _ = await self.claimed(log, model)
        async with log.follow_input(attachment.ref) as follower:
            follower.start(START)
            await log.append_input(attachment, 1, [Record(b"a", b"pcm")])
            assert ids(await take(follower, 2)) == ["1-0", "1-1"]
            second = await self.attached(log, attachment.ref, b"token-1", b"token-2")
            await log.append_input(second, 1, records(b"b"))
            await log.detach(second, b"left")
            assert [e.body for e in await take(follower, 3)] == [b"attached", b"b", b"left"]

    async def test_notices_reach_whoever_follows_the_output(self, log: SessionLog, model: str) -> None:
        attachment, claim = await self.claimed(log, model)
        async with log.follow_output(attachment.ref) as follower:
            news = follower.__aiter__()
            follower.start(START)
            assert await asyncio.wait_for(anext(news), 30) == AttachmentRaised(1)
            await log.checkpoint(claim, b"", opening=b"answer")
            assert await asyncio.wait_for(anext(news), 30) == Opened(b"answer")
            await self.attached(log, attachment.ref, b"token-1", b"token-2")
            assert await asyncio.wait_for(anext(news), 30) == AttachmentRaised(2)
            await log.append_output(claim, 1, records(b"1"))
            await log.close(claim, "done")
            assert await take_until_end(follower) == [Entry(EntryId(1, 1), b"1"), Ended("done")]

    async def test_a_late_follower_is_told_what_it_missed(self, log: SessionLog, model: str) -> None:
        attachment, claim = await self.claimed(log, model)
        await log.checkpoint(claim, b"", opening=b"answer")
        await self.attached(log, attachment.ref, b"token-1", b"token-2")
        await log.append_output(claim, 1, records(b"1", b"2"))
        await log.close(claim, "done")
        async with log.follow_output(attachment.ref) as follower:
            follower.start(START)
            assert ids(await take_until_end(follower)) == ["Opened", "AttachmentRaised", "1-1", "1-2", "Ended"]
        async with log.follow_input(attachment.ref) as follower:
            follower.start(START)
            assert ids(await take_until_end(follower)) == ["1-0", "2-0"]

    async def test_input_ends_with_the_session(self, log: SessionLog, model: str) -> None:
        attachment, claim = await self.claimed(log, model)
        async with log.follow_input(attachment.ref) as follower:
            follower.start(START)
            assert ids(await take(follower, 1)) == ["1-0"]
            ending = asyncio.create_task(take_until_end(follower))
            await log.close(claim, "done")
            assert await ending == []

    async def test_a_session_that_is_gone_ends_its_followers(self, log: SessionLog, model: str) -> None:
        attachment, _ = await self.claimed(log, model)
        await self.raw_erase(log, attachment.ref)
        async with log.follow_output(attachment.ref) as follower:
            follower.start(START)
            assert await take_until_end(follower) == [Ended("gone")]

    async def test_a_cancelled_step_loses_nothing(self, log: SessionLog, model: str) -> None:
        attachment, claim = await self.claimed(log, model)
        async with log.follow_output(attachment.ref) as follower:
            news = follower.__aiter__()
            follower.start(START)
            found: list[Entry] = []
            for seq in range(1, 21):
                step = asyncio.ensure_future(anext(news))
                await asyncio.sleep(0.001 * (seq % 3))
                if not step.done():
                    step.cancel()
                for item in await asyncio.gather(step, return_exceptions=True):
                    if isinstance(item, Entry):
                        found.append(item)
                await log.append_output(claim, seq, records(b"%d" % seq))
            found += await take(follower, 20 - len(found))
            assert [entry.id.number for entry in found] == list(range(1, 21))

    async def test_a_slow_reader_gets_everything_from_the_log(self, log: SessionLog, model: str) -> None:
        attachment, claim = await self.claimed(log, model)
        pcm = b"\x01\x02" * 10_000
        async with log.follow_output(attachment.ref) as follower:
            follower.start(START)
            await log.append_output(claim, 1, records(b"1"))
            assert ids(await take(follower, 1)) == ["1-1"]
            for seq in range(2, 252, 10):  # 5 MB while nobody reads
                await log.append_output(claim, seq, [Record(b"%d" % n, pcm) for n in range(seq, seq + 10)])
            found = await take(follower, 250)
            assert [entry.id.number for entry in found] == list(range(2, 252))
            assert all(entry.audio == pcm for entry in found)

    async def test_large_records_are_delivered_in_their_place(self, log: SessionLog, model: str) -> None:
        attachment, claim = await self.claimed(log, model)
        async with log.follow_output(attachment.ref) as follower:
            follower.start(START)
            sizes = [10, 40_000, 20, 300_000, 30, 32 * 1024, 32 * 1024 + 1]
            for seq, size in enumerate(sizes, 1):
                await log.append_output(claim, seq, [Record(b"%d" % seq, b"p" * size)])
            found = await take(follower, len(sizes))
            assert [(entry.id.number, len(entry.audio or b"")) for entry in found] == list(enumerate(sizes, 1))

    async def test_a_follower_that_left_is_forgotten(self, log: SessionLog, model: str) -> None:
        attachment, claim = await self.claimed(log, model)
        async with log.follow_output(attachment.ref) as follower:
            follower.start(START)
        await log.append_output(claim, 1, records(b"1"))
        async with log.follow_output(attachment.ref) as follower:
            follower.start(START)
            assert ids(await take(follower, 1)) == ["1-1"]
        assert (await eventually(lambda: log.head(attachment.ref.session_id))).output.number == 1
