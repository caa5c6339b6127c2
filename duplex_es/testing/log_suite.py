"""The promises of ``duplex_es.log.api`` as tests: subclass ``LogSuite`` and supply a log.

A subclass overrides ``make_log`` and the raw accessors that look past the log; see ``log_stage``. ``LogSuite`` asks
one client at a time, as far as that is possible; ``RacingLogSuite`` adds what only a store with a clock and processes
of its own can prove, and is not for fakes. Needs pytest and pytest-asyncio::

    class TestMyLog(RacingLogSuite):
        async def make_log(self, settings):
            ...
"""

from __future__ import annotations

import asyncio
import random
import uuid

import pytest

from ..log.api import Attachment, Claim, Record, SessionLog
from ..log.errors import Fenced, LogError, SessionExists, SessionUnknown
from ..log.memory import MemoryLog
from ..log.settings import LogSettings
from .log_history import HistoryPromises, PositionPromises
from .log_keeping import KeepingPromises
from .log_ownership import ClaimingPromises, OpeningPromises
from .log_programs import run_program
from .log_stage import records, take
from .log_streams import AppendingPromises, FollowingPromises, ReadingPromises


class LogSuite(
    OpeningPromises,
    ClaimingPromises,
    AppendingPromises,
    ReadingPromises,
    FollowingPromises,
    PositionPromises,
    HistoryPromises,
    KeepingPromises,
):
    """Every promise that can be asked for one call at a time."""

    programs = 25
    program_steps = 80

    async def test_random_programs_are_answered_as_by_the_memory_log(self, log: SessionLog) -> None:
        for seed in range(self.programs):
            prefix = f"p-{uuid.uuid4().hex}"
            await run_program(seed, self.program_steps, log, MemoryLog(LogSettings()), prefix)


class RacingLogSuite(LogSuite):
    """Promises about several clients at the same time. Two logs of one test are two processes' clients."""

    async def test_of_two_racing_creates_one_wins(self, log: SessionLog, settings: LogSettings, model: str) -> None:
        other = await self.make_log(settings)
        for _ in range(20):
            ref = await log.next_incarnation(f"s-{uuid.uuid4().hex}")
            outcomes = await asyncio.gather(
                *(
                    client.create(ref, model=model, token_digest=token, gateway=token.decode(), record=token)
                    for client, token in ((log, b"a"), (other, b"b"))
                ),
                return_exceptions=True,
            )
            assert sorted(type(outcome).__name__ for outcome in outcomes) == ["Attachment", "SessionExists"]
            winner = next(outcome for outcome in outcomes if isinstance(outcome, Attachment))
            assert (await log.head(ref.session_id)).gateway == winner.gateway
            assert isinstance(next(o for o in outcomes if not isinstance(o, Attachment)), SessionExists)
        await other.close_connections()

    async def test_of_two_racing_attaches_one_wins(self, log: SessionLog, settings: LogSettings, model: str) -> None:
        other = await self.make_log(settings)
        for _ in range(20):
            ref = (await self.created(log, model)).ref
            outcomes = await asyncio.gather(
                self.attached(log, ref, b"token-1", b"token-2a"),
                self.attached(other, ref, b"token-1", b"token-2b"),
                return_exceptions=True,
            )
            assert sorted(type(outcome).__name__ for outcome in outcomes) == ["Attachment", "TokenRefused"]
            assert await self.raw_ids(log, ref, "in") == ["1-0", "2-0"]
        await other.close_connections()

    async def test_of_many_racing_claims_each_session_has_one(
        self, log: SessionLog, settings: LogSettings, model: str
    ) -> None:
        others = [await self.make_log(settings) for _ in range(3)]
        refs = {(await self.created(log, model)).ref for _ in range(30)}
        claims: list[Claim] = []

        async def work(client: SessionLog, worker: str) -> None:
            while len(claims) < len(refs):
                if claimed := await client.claim(worker, [model]):
                    claims.append(claimed[0])
                else:
                    await client.wait_for_ready(0.05)

        await asyncio.wait_for(asyncio.gather(*(work(o, f"w{n}") for n, o in enumerate([log, *others]))), 20)
        assert {claim.ref for claim in claims} == refs
        assert len(claims) == len(refs)
        assert all(claim.fence == 1 for claim in claims)
        for other in others:
            await other.close_connections()

    async def test_writers_of_two_generations_never_mix(
        self, log: SessionLog, settings: LogSettings, model: str
    ) -> None:
        other = await self.make_log(settings)
        attachment, claim = await self.claimed(log, model)

        async def write(client: SessionLog, writer: Attachment | Claim, first: int) -> int:
            number = first
            while True:
                try:
                    if isinstance(writer, Claim):
                        await client.append_output(writer, number, records(b"o"))
                    else:
                        await client.append_input(writer, number, records(b"i"))
                except Fenced:
                    return number - 1
                number += 1
                if number > first + 400:
                    return number - 1

        writing = [asyncio.create_task(write(log, claim, 1)), asyncio.create_task(write(log, attachment, 1))]
        await asyncio.sleep(0.05)
        second = await self.attached(other, attachment.ref, b"token-1", b"token-2")
        await other.release(claim)
        successor, head = await self.must_claim(other, "worker-2", model)
        writing.append(asyncio.create_task(write(other, second, 1)))
        writing.append(asyncio.create_task(write(other, successor, head.output.number + 1)))
        await asyncio.gather(*writing)
        for stream in ("in", "out"):
            found = [tuple(map(int, i.split("-"))) for i in await self.raw_ids(log, attachment.ref, stream)]
            assert found == sorted(found)
            assert {generation for generation, _ in found} == {1, 2}
        seqs = [entry.id.number for entry in await log.read_output(attachment.ref, 0, limit=2000)]
        assert seqs == list(range(1, len(seqs) + 1))
        await other.close_connections()

    async def test_a_session_closed_elsewhere_takes_no_late_append(
        self, log: SessionLog, settings: LogSettings, model: str
    ) -> None:
        other = await self.make_log(settings)
        attachment, claim = await self.claimed(log, model)
        await log.append_output(claim, 1, [Record(b"1", b"pcm")])
        await log.append_input(attachment, 1, [Record(b"a", b"pcm")])
        await other.close(claim, "done")
        with pytest.raises(SessionUnknown):
            await log.append_output(claim, 2, [Record(b"2", b"pcm")])
        with pytest.raises(SessionUnknown):
            await log.append_input(attachment, 2, [Record(b"b", b"pcm")])
        assert await self.raw_ids(log, attachment.ref, "in") == ["1-0", "1-1"]
        assert await self.raw_ids(log, attachment.ref, "out") == ["1-0", "1-1"]
        for stream in ("in-audio", "out-audio"):
            assert await self.raw_ids(log, attachment.ref, stream) == ["1-1"]
        await other.close_connections()

    async def test_a_session_made_elsewhere_wakes_a_waiting_worker(
        self, log: SessionLog, settings: LogSettings, model: str
    ) -> None:
        worker = await self.make_log(LogSettings(sweep_interval_s=3600.0))
        assert await worker.claim("worker-1", [model]) is None
        waiter = asyncio.create_task(worker.wait_for_ready(30.0))
        await self.created(log, model)
        await asyncio.wait_for(waiter, 20)
        assert await worker.claim("worker-1", [model]) is not None
        await worker.close_connections()

    async def test_readers_elsewhere_miss_nothing_however_they_start(
        self, log: SessionLog, settings: LogSettings, model: str
    ) -> None:
        reader = await self.make_log(settings)
        draw = random.Random(4)
        attachment, claim = await self.claimed(log, model)

        async def write() -> None:
            seq = 1
            while seq <= 600:
                batch = [Record(b"%d" % n, b"pcm") for n in range(seq, seq + draw.randrange(1, 4))]
                await log.append_output(claim, seq, batch)
                seq += len(batch)

        async def read() -> None:
            await asyncio.sleep(draw.random() * 0.1)
            async with reader.follow_output(attachment.ref) as follower:
                await asyncio.sleep(draw.random() * 0.02)
                head = await reader.head(attachment.ref.session_id)
                await asyncio.sleep(draw.random() * 0.02)
                follower.start(head.output)
                found = await take(follower, 600 - head.output.number)
                assert [entry.id.number for entry in found] == list(range(head.output.number + 1, 601))

        await asyncio.gather(write(), *(read() for _ in range(12)))
        await reader.close_connections()

    async def test_a_cancelled_append_leaves_the_log_in_order(self, log: SessionLog, model: str) -> None:
        attachment, claim = await self.claimed(log, model)
        for seq in range(1, 60):
            append = asyncio.create_task(log.append_output(claim, seq, records(b"%d" % seq)))
            for _ in range(seq % 4):
                await asyncio.sleep(0)
            append.cancel()
            await asyncio.gather(append, return_exceptions=True)
            # The caller does not know what became of it; saying it again settles that.
            await log.append_output(claim, seq, records(b"%d" % seq))
        found = await log.read_output(attachment.ref, 0)
        assert [entry.body for entry in found] == [b"%d" % seq for seq in range(1, 60)]

    async def test_a_closed_log_answers_no_more(self, settings: LogSettings, model: str) -> None:
        log = await self.make_log(settings)
        attachment, claim = await self.claimed(log, model)
        await log.close_connections()
        await log.close_connections()
        again = await self.make_log(settings)
        await again.append_output(claim, 1, records(b"1"))
        with pytest.raises(LogError):
            await again.append_output(claim, 3, records(b"3"))
        assert (await again.head(attachment.ref.session_id)).output.number == 1
        with pytest.raises(SessionUnknown):
            await again.head("never-seen")
        await again.close_connections()
