"""A follower puts notifications and the log together: nothing twice, nothing missing, nothing from a fenced writer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from duplex_es.log.api import START, AttachmentRaised, Ended, Entry, EntryId, Opened, Record
from duplex_es.log.errors import LogUnavailable, PositionGone
from duplex_es.log.follower import CATCH_UP_ENTRIES, FEWEST_ENTRIES, RedisFollower, Standing
from duplex_es.log.notifications import encode_record
from duplex_es.testing.log_stage import ids, take

pytestmark = pytest.mark.unit


@dataclass
class Log:
    """One stream in memory, with everything that the follower asks for counted."""

    entries: list[Entry] = field(default_factory=list)
    state: str = "claimed"
    generation: int = 1
    attachment: int = 1
    opening: bytes | None = None
    reason: str = ""
    first_seq: int = 1
    reads: int = 0
    looks: int = 0
    failures: list[Exception] = field(default_factory=list)

    def write(self, entry_id: str, body: bytes = b"") -> bytes:
        """Store an entry; return the notification that would be published."""
        self.entries.append(Entry(EntryId.parse(entry_id), body))
        return encode_record(entry_id, Record(body), 32_768)

    async def read(self, after: EntryId, limit: int) -> list[Entry]:
        self.reads += 1
        await asyncio.sleep(0)
        if self.failures:
            raise self.failures.pop()
        return [entry for entry in self.entries if entry.id > after][:limit]

    async def look(self, after_seq: int) -> Standing:
        self.looks += 1
        await asyncio.sleep(0)
        # As look.lua: the claim under which the next seq was written.
        written = [entry.id for entry in self.entries if entry.id.number == after_seq + 1]
        under = written[0].generation if written else self.generation
        return Standing(
            self.state,
            self.generation,
            self.attachment,
            self.first_seq,
            EntryId(under, after_seq),
            self.reason,
            self.opening,
            max((entry.id.generation for entry in self.entries if entry.id.number == after_seq), default=0),
        )

    def follow(self, *, output: bool = True, buffer_bytes: int = 10_000) -> RedisFollower:
        return RedisFollower(self.read, self.look, output=output, buffer_bytes=buffer_bytes)


def written(*entry_ids: str) -> Log:
    log = Log()
    for entry_id in entry_ids:
        log.write(entry_id)
    return log


async def settled(follower: RedisFollower, entry_ids: Sequence[str]) -> None:
    """Take exactly these entries, and see that no other one follows by itself."""
    assert ids(await take(follower, len(entry_ids))) == list(entry_ids)
    step = asyncio.ensure_future(take(follower, 1))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not step.done(), step.result()
    step.cancel()
    await asyncio.gather(step, return_exceptions=True)


async def test_live_entries_follow_without_reading_the_log() -> None:
    log = written("1-0", "1-1")
    follower = log.follow()
    follower.start(START)
    await settled(follower, ["1-1"])
    reads = log.reads
    for seq in (2, 3, 4):
        follower.received(log.write(f"1-{seq}"))
    await settled(follower, ["1-2", "1-3", "1-4"])
    assert log.reads == reads


async def test_what_arrives_before_the_start_is_neither_lost_nor_doubled() -> None:  # E9
    log = written("1-0", "1-1")
    follower = log.follow()
    for seq in (2, 3):
        follower.received(log.write(f"1-{seq}"))
    follower.start(EntryId(0, 1))
    await settled(follower, ["1-2", "1-3"])


async def test_a_notification_that_comes_twice_counts_once() -> None:
    log = written("1-0")
    follower = log.follow()
    follower.start(START)
    news = log.write("1-1")
    follower.received(news)
    follower.received(news)
    await settled(follower, ["1-1"])
    follower.received(news)
    follower.received(log.write("1-2"))
    await settled(follower, ["1-2"])


async def test_a_hole_is_filled_from_the_log() -> None:
    log = written("1-0", "1-1")
    follower = log.follow()
    follower.start(START)
    await settled(follower, ["1-1"])
    log.write("1-2")
    log.write("1-3")
    follower.received(log.write("1-4"))
    follower.received(log.write("1-5"))
    await settled(follower, ["1-2", "1-3", "1-4", "1-5"])


async def test_a_pointer_is_read_from_the_log() -> None:
    log = written("1-0", "1-1")
    follower = log.follow()
    follower.start(START)
    await settled(follower, ["1-1"])
    log.write("1-2", b"x" * 50_000)
    follower.received(b"p 1-2\n")
    follower.received(log.write("1-3"))
    await settled(follower, ["1-2", "1-3"])


async def test_a_fenced_writers_notification_is_dropped() -> None:
    log = written("1-0", "1-1")
    follower = log.follow()
    follower.start(START)
    await settled(follower, ["1-1"])
    follower.received(log.write("2-0"))
    follower.received(encode_record("1-2", Record(b"refused"), 32_768))
    await settled(follower, [])
    follower.received(log.write("2-2"))
    await settled(follower, ["2-2"])


async def test_a_fenced_writer_is_known_from_the_head_alone() -> None:
    log = written("1-0", "1-1", "2-0")
    log.generation = 2
    follower = log.follow()
    follower.start(START)
    await settled(follower, ["1-1"])
    follower.received(encode_record("1-2", Record(b"refused"), 32_768))
    await settled(follower, [])


async def test_a_new_attachments_entries_wait_for_what_the_old_one_wrote_last() -> None:
    log = written("1-0", "1-1")
    follower = log.follow(output=False)
    follower.start(START)
    await settled(follower, ["1-0", "1-1"])
    log.write("1-2")  # its notification is lost
    follower.received(log.write("2-0"))
    follower.received(log.write("2-1"))
    await settled(follower, ["1-2", "2-0", "2-1"])


async def test_an_index_that_goes_on_under_another_attachment_is_a_hole() -> None:
    log = written("1-0", "1-1")
    follower = log.follow(output=False)
    follower.start(START)
    await settled(follower, ["1-0", "1-1"])
    log.write("2-0")
    log.write("2-1")
    follower.received(log.write("2-2"))
    await settled(follower, ["2-0", "2-1", "2-2"])


async def test_a_slow_reader_costs_no_more_than_its_buffer() -> None:
    log = written("1-0", "1-1")
    follower = log.follow(buffer_bytes=1000)
    follower.start(START)
    await settled(follower, ["1-1"])
    for seq in range(2, 500):
        follower.received(log.write(f"1-{seq}", b"x" * 100))
        assert follower._live_bytes <= 1000
        assert len(follower._live) <= 10
    await settled(follower, [f"1-{seq}" for seq in range(2, 500)])


async def test_a_long_history_is_read_in_pieces_while_more_arrives() -> None:
    count = CATCH_UP_ENTRIES * 2 + 30
    log = written("1-0", *(f"1-{seq}" for seq in range(1, count)))
    follower = log.follow()
    follower.start(START)
    assert len(await take(follower, 10)) == 10
    for seq in range(count, count + 20):
        follower.received(log.write(f"1-{seq}"))
    await settled(follower, [f"1-{seq}" for seq in range(11, count + 20)])


async def test_a_resumed_subscription_looks_and_reads() -> None:
    log = written("1-0", "1-1")
    follower = log.follow()
    follower.start(START)
    await settled(follower, ["1-1"])
    log.write("1-2")
    log.opening, log.attachment = b"answer", 2
    follower.resumed()
    news = [await anext(follower) for _ in range(3)]
    assert news == [Opened(b"answer"), AttachmentRaised(2), Entry(EntryId(1, 2), b"")]


async def test_a_renewal_that_knows_more_sends_it_to_the_log() -> None:
    log = written("1-0", "1-1")
    follower = log.follow()
    follower.start(START)
    await settled(follower, ["1-1"])
    looks = log.looks
    follower.noticed("claimed", 1, 1, EntryId(1, 1), False)
    await settled(follower, [])
    assert log.looks == looks
    log.write("1-2")
    follower.noticed("claimed", 1, 1, EntryId(1, 2), False)
    await settled(follower, ["1-2"])


async def test_a_renewal_tells_of_a_lost_ending() -> None:
    log = written("1-0", "1-1")
    follower = log.follow()
    follower.start(START)
    await settled(follower, ["1-1"])
    log.write("1-2")
    log.state, log.reason = "closed", "done"
    follower.noticed("closed", 1, 1, EntryId(1, 2), False)
    assert [item async for item in follower] == [Entry(EntryId(1, 2), b""), Ended("done")]


async def test_the_ending_waits_for_the_last_entry() -> None:
    log = written("1-0", "1-1")
    follower = log.follow()
    follower.start(START)
    await settled(follower, ["1-1"])
    log.write("1-2")  # its notification is lost
    follower.received(b"z \ndone")
    assert [item async for item in follower] == [Entry(EntryId(1, 2), b""), Ended("done")]


async def test_a_trimmed_position_is_said_to_be_gone() -> None:
    log = written("1-6", "1-7")
    log.first_seq = 6
    follower = log.follow()
    follower.start(EntryId(0, 4))
    with pytest.raises(PositionGone) as gone:
        await anext(follower)
    assert gone.value.first_available == 6


async def test_a_read_that_failed_is_made_again_by_the_next_step() -> None:
    log = written("1-0", "1-1")
    log.failures.append(LogUnavailable("away"))
    follower = log.follow()
    follower.start(START)
    assert await anext(follower) == AttachmentRaised(1)
    with pytest.raises(LogUnavailable):
        await anext(follower)
    await settled(follower, ["1-1"])


async def test_what_a_stranger_published_is_ignored() -> None:
    log = written("1-0", "1-1")
    follower = log.follow()
    follower.start(START)
    for data in (b"", b"hello", b"r 1-2\n", b"a x\n"):
        follower.received(data)
    await settled(follower, ["1-1"])


async def test_a_seq_that_is_used_again_by_a_newer_claim_is_told() -> None:
    """The store lost 2 and 3, their author is gone, and its successor did not know of them."""
    log = written("1-1", "1-2", "1-3")
    follower = log.follow()
    follower.start(START)
    assert ids(await take(follower, 3)) == ["1-1", "1-2", "1-3"]
    log.entries[1:] = []
    log.generation = 2
    follower.received(log.write("2-0"))
    follower.received(log.write("2-2", b"another"))
    with pytest.raises(PositionGone):
        await anext(follower)


async def test_a_seq_that_is_used_again_is_told_though_nothing_was_heard_of_it() -> None:
    """Only the notification of a seq that comes after those used again arrives; by its number it would be the next."""
    log = written("1-1", "1-2", "1-3")
    follower = log.follow()
    follower.start(START)
    assert ids(await take(follower, 3)) == ["1-1", "1-2", "1-3"]
    log.entries[1:] = []
    log.generation = 2
    log.write("2-0")
    log.write("2-2", b"another")
    log.write("2-3", b"another")
    follower.received(log.write("2-4"))
    with pytest.raises(PositionGone):
        await anext(follower)


async def test_a_seq_that_is_used_again_is_seen_after_an_interruption_too() -> None:
    log = written("1-1", "1-2", "1-3")
    follower = log.follow()
    follower.start(START)
    await take(follower, 3)
    log.entries[1:] = []
    log.generation = 2
    for seq in range(2, 6):
        log.write(f"2-{seq}", b"another")
    follower.resumed()
    with pytest.raises(PositionGone):
        await anext(follower)


async def test_a_claim_that_goes_on_where_the_last_one_ended_uses_nothing_again() -> None:
    log = written("1-1", "1-2")
    follower = log.follow()
    follower.start(START)
    await take(follower, 2)
    log.generation = 2
    follower.received(log.write("2-0"))
    follower.received(log.write("2-3"))
    follower.resumed()
    assert ids(await take(follower, 1)) == ["2-3"]


async def test_a_hole_that_trimming_tore_is_told() -> None:
    log = written(*(f"1-{seq}" for seq in range(1, 6)))
    follower = log.follow(buffer_bytes=0)
    follower.start(START)
    await settled(follower, [f"1-{seq}" for seq in range(1, 6)])
    for seq in range(6, 12):
        follower.received(log.write(f"1-{seq}", b"more than the buffer holds"))
    log.entries[:] = [entry for entry in log.entries if entry.id.number >= 9]
    with pytest.raises(PositionGone) as gone:
        await anext(follower)
    assert gone.value.first_available == 9


async def test_what_was_trimmed_to_the_last_entry_is_told_without_a_next_one() -> None:
    log = written("1-1")
    follower = log.follow(buffer_bytes=0)
    follower.start(START)
    await settled(follower, ["1-1"])
    follower.received(log.write("1-2", b"more than the buffer holds"))
    log.entries.clear()
    log.first_seq = 3
    with pytest.raises(PositionGone):
        await anext(follower)


async def test_an_ending_does_not_hide_that_something_was_trimmed() -> None:
    log = written("1-1")
    follower = log.follow()
    follower.start(START)
    await settled(follower, ["1-1"])
    log.state, log.reason, log.first_seq = "closed", "done", 4
    follower.received(b"z \ndone")
    with pytest.raises(PositionGone):
        await anext(follower)


async def test_what_the_store_lost_without_anybody_writing_again_is_waited_for() -> None:
    log = written("1-1", "1-2")
    follower = log.follow()
    follower.start(START)
    await settled(follower, ["1-1", "1-2"])
    log.write("1-3")
    follower.received(b"p 1-3\n")
    log.entries.pop()
    await settled(follower, [])
    follower.received(log.write("1-3"))
    await settled(follower, ["1-3"])


async def test_catching_up_takes_few_large_entries_at_a_time() -> None:
    log = Log()
    for seq in range(1, 101):
        log.write(f"1-{seq}", bytes(64 * 1024))
    limits: list[int] = []

    async def read(after: EntryId, limit: int) -> list[Entry]:
        limits.append(limit)
        return await log.read(after, limit)

    follower = RedisFollower(read, log.look, output=True, buffer_bytes=10_000)
    follower.start(EntryId(0, 50))
    assert len(await take(follower, 50)) == 50
    follower.resumed()
    for seq in range(101, 111):
        log.write(f"1-{seq}", bytes(64 * 1024))
    assert len(await take(follower, 10)) == 10
    assert limits[0] == CATCH_UP_ENTRIES
    assert set(limits[1:]) == {FEWEST_ENTRIES}


@pytest.mark.parametrize(
    ("after", "passed"),
    [(START, 2), (EntryId(1, 1), 2), (EntryId(0, 1), 0)],
    ids=["from the start", "from a known fence", "from an unknown fence"],
)
async def test_a_follower_vouches_for_the_fences_that_it_passed(after: EntryId, passed: int) -> None:
    log = written("1-0", "1-1", "2-0", "2-2")
    log.generation = 2
    follower = log.follow()
    follower.start(after)
    assert follower.passed == 0
    await settled(follower, ["1-1", "2-2"] if after == START else ["2-2"])
    assert follower.passed == passed
    assert follower.position == EntryId(2, 2)
