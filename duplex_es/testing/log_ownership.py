"""The log suite, first half: who may write. Opening, attaching, claiming, leases, closing, the fleet."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

import pytest

from ..log.api import EntryId, SessionLog, SessionRef, WorkerCard
from ..log.errors import Fenced, IncarnationMismatch, SessionExists, SessionUnknown, TokenRefused
from ..log.settings import LogSettings
from .log_stage import LogStage, eventually, records


class OpeningPromises(LogStage):
    """What ``create``, ``attach``, ``confirm`` and ``detach`` promise."""

    async def test_the_first_session_of_an_id_is_incarnation_0(self, log: SessionLog, model: str) -> None:
        attachment = await self.created(log, model)
        assert attachment.ref.incarnation == 0
        assert attachment.generation == 1
        assert attachment.gateway == "gateway-1"

    async def test_creating_writes_the_record_as_the_first_input_entry(self, log: SessionLog, model: str) -> None:
        ref = (await self.created(log, model)).ref
        assert await self.raw_ids(log, ref, "in") == ["1-0"]
        assert await self.raw_entry(log, ref, "in", "1-0") == b"created"
        assert await self.raw_ids(log, ref, "out") == []

    async def test_a_new_session_waits_and_is_attached(self, log: SessionLog, model: str) -> None:
        ref = (await self.created(log, model)).ref
        head = await log.head(ref.session_id)
        assert (head.ref, head.model, head.state, head.attached, head.gateway) == (
            ref,
            model,
            "waiting",
            True,
            "gateway-1",
        )
        assert (head.generation, head.fence, head.worker) == (1, 0, "")
        assert (head.output, head.input) == (EntryId(0, 0), EntryId(1, 0))
        assert (head.first_seq, head.acknowledged_seq, head.opening, head.checkpoint) == (1, 0, None, None)

    async def test_an_open_session_cannot_be_opened_again(self, log: SessionLog, model: str) -> None:
        ref = (await self.created(log, model)).ref
        with pytest.raises(SessionExists):
            await log.next_incarnation(ref.session_id)
        for incarnation in (0, 1):
            with pytest.raises(SessionExists):
                await log.create(
                    SessionRef(ref.session_id, incarnation),
                    model=model,
                    token_digest=b"other",
                    gateway="gateway-2",
                    record=b"",
                )
        assert await self.raw_ids(log, ref, "in") == ["1-0"]

    async def test_a_closed_id_is_opened_as_the_next_incarnation(self, log: SessionLog, model: str) -> None:
        attachment, claim = await self.claimed(log, model)
        await log.append_output(claim, 1, records(b"old"))
        await log.close(claim, "done")
        again = await self.created(log, model, attachment.ref.session_id)
        assert again.ref == SessionRef(attachment.ref.session_id, 1)
        assert again.generation == 1
        head = await log.head(again.ref.session_id)
        assert (head.ref, head.state, head.output.number) == (again.ref, "waiting", 0)
        assert [entry.body for entry in await log.read_output(attachment.ref, 0)] == [b"old"]
        assert [entry.body for entry in await log.read_input(again.ref, EntryId(0, 0))] == [b"created"]

    async def test_only_the_next_incarnation_can_be_created(self, log: SessionLog) -> None:
        with pytest.raises(SessionExists):
            await log.create(SessionRef("never-seen", 3), model="m", token_digest=b"", gateway="g", record=b"")
        with pytest.raises(SessionUnknown):
            await log.head("never-seen")

    async def test_attaching_raises_the_generation_and_writes_the_record(self, log: SessionLog, model: str) -> None:
        ref = (await self.created(log, model)).ref
        attachment, head = await log.attach(
            ref, presented_digest=b"token-1", next_digest=b"token-2", gateway="gateway-2", record=b"attached"
        )
        assert (attachment.ref, attachment.generation, attachment.gateway) == (ref, 2, "gateway-2")
        assert (head.generation, head.attached, head.gateway, head.input) == (2, True, "gateway-2", EntryId(2, 0))
        assert head == await log.head(ref.session_id)
        assert await self.raw_ids(log, ref, "in") == ["1-0", "2-0"]
        assert await self.raw_entry(log, ref, "in", "2-0") == b"attached"

    async def test_a_superseded_attachment_can_do_nothing(self, log: SessionLog, model: str) -> None:
        old = await self.created(log, model)
        new = await self.attached(log, old.ref, b"token-1", b"token-2")
        with pytest.raises(Fenced):
            await log.append_input(old, 1, records(b"late"))
        with pytest.raises(Fenced):
            await log.acknowledge(old, 1)
        with pytest.raises(Fenced):
            await log.confirm(old)
        await log.detach(old, b"left")
        assert await log.renew([old, new], []) == [old]
        assert (await log.head(old.ref.session_id)).attached
        assert await self.raw_ids(log, old.ref, "in") == ["1-0", "2-0"]

    async def test_a_refused_attach_changes_nothing(self, log: SessionLog, model: str) -> None:
        ref = (await self.created(log, model)).ref
        before = await log.head(ref.session_id)
        with pytest.raises(TokenRefused):
            await self.attached(log, ref, b"wrong", b"token-2")
        with pytest.raises(IncarnationMismatch):
            await self.attached(log, SessionRef(ref.session_id, 1), b"token-1", b"token-2")
        with pytest.raises(SessionUnknown):
            await self.attached(log, SessionRef("never-seen", 0), b"token-1", b"token-2")
        assert await log.head(ref.session_id) == before
        assert await self.raw_ids(log, ref, "in") == ["1-0"]
        assert (await self.attached(log, ref, b"token-1", b"token-2")).generation == 2

    async def test_a_call_whose_answer_was_lost_can_be_made_again(self, log: SessionLog, model: str) -> None:
        first = await self.created(log, model)
        again = await log.create(
            first.ref, model=model, token_digest=b"token-1", gateway="gateway-1", record=b"created"
        )
        assert again == first
        second = await self.attached(log, first.ref, b"token-1", b"token-2")
        assert await self.attached(log, first.ref, b"token-1", b"token-2") == second
        assert await self.raw_ids(log, first.ref, "in") == ["1-0", "2-0"]

    async def test_the_token_rotates_with_each_attach(self, log: SessionLog, model: str) -> None:
        ref = (await self.created(log, model)).ref
        second = await self.attached(log, ref, b"token-1", b"token-2")
        await log.confirm(second)
        await log.detach(second, b"left")
        with pytest.raises(TokenRefused):
            await self.attached(log, ref, b"token-1", b"token-3")
        assert (await self.attached(log, ref, b"token-2", b"token-3")).generation == 3

    async def test_the_presented_token_counts_once_more_until_confirmed(self, log: SessionLog, model: str) -> None:
        ref = (await self.created(log, model)).ref
        second = await self.attached(log, ref, b"token-1", b"token-2")
        with pytest.raises(TokenRefused):  # somebody is attached: this is a race, not a lost answer
            await self.attached(log, ref, b"token-1", b"token-3")
        await log.detach(second, b"left")
        third = await self.attached(log, ref, b"token-1", b"token-3")
        assert third.generation == 3
        await log.confirm(third)
        await log.detach(third, b"left")
        with pytest.raises(TokenRefused):
            await self.attached(log, ref, b"token-1", b"token-4")

    async def test_an_old_attempt_to_attach_does_not_use_up_a_newer_token(self, log: SessionLog, model: str) -> None:
        """It was given up, and is answered after the later one whose token the client has."""
        ref = (await self.created(log, model)).ref
        tokens = [b"token-%d" % n for n in range(1, 8)]
        await log.detach(await self.attached(log, ref, tokens[0], tokens[1]), b"left")
        for late in tokens[2:4]:
            await log.detach(await self.attached(log, ref, tokens[0], late), b"left")
        for good in tokens[:4]:
            assert (await log.admit(ref, good)).generation == 4
        await self.attached(log, ref, tokens[0], b"late")
        with pytest.raises(TokenRefused):  # somebody is attached: this is a race
            await self.attached(log, ref, tokens[0], tokens[6])
        fifth = await self.attached(log, ref, tokens[1], tokens[4])  # no race: it is ahead of who is attached
        await log.detach(fifth, b"left")
        with pytest.raises(TokenRefused):  # whoever had a newer one was here
            await log.admit(ref, tokens[0])
        for good in tokens[1:5]:
            await log.admit(ref, good)
        sixth = await self.attached(log, ref, tokens[4], tokens[5])
        await log.detach(sixth, b"left")
        for refused in tokens[:4]:
            with pytest.raises(TokenRefused):
                await log.admit(ref, refused)
        seventh = await self.attached(log, ref, tokens[4], tokens[6])
        await log.confirm(seventh)
        await log.detach(seventh, b"left")
        for refused in tokens[:6]:
            with pytest.raises(TokenRefused):
                await log.admit(ref, refused)
        await log.admit(ref, tokens[6])

    async def test_of_a_long_row_of_tokens_the_last_ones_are_good(self, log: SessionLog, model: str) -> None:
        ref, digests = (await self.created(log, model)).ref, [b"%032d" % n for n in range(20)]
        presented = b"token-1"
        for digest in digests:
            await log.detach(await self.attached(log, ref, presented, digest), b"left")
        for good in (presented, *digests[-2:]):
            await log.admit(ref, good)
        with pytest.raises(TokenRefused):
            await log.admit(ref, digests[0])

    async def test_a_token_that_could_attach_admits_and_is_not_used_up(self, log: SessionLog, model: str) -> None:
        attachment, claim = await self.claimed(log, model)
        ref = attachment.ref
        before = await log.head(ref.session_id)
        assert await log.admit(ref, b"token-1") == before == await log.head(ref.session_id)
        with pytest.raises(SessionUnknown):
            await log.admit(SessionRef(f"no-{ref.session_id}", 0), b"token-1")
        with pytest.raises(IncarnationMismatch):
            await log.admit(SessionRef(ref.session_id, 7), b"token-1")
        second = await self.attached(log, ref, b"token-1", b"token-2")
        with pytest.raises(TokenRefused):
            await log.admit(ref, b"token-1")  # good once more only while nothing is attached
        await log.detach(second, b"left")
        assert (await log.admit(ref, b"token-1")).generation == 2
        await log.close(claim, "done")
        assert (await log.admit(ref, b"token-2")).state == "closed"
        with pytest.raises(TokenRefused):
            await log.admit(ref, b"token-3")

    async def test_detaching_writes_the_next_entry_and_unattaches_once(self, log: SessionLog, model: str) -> None:
        attachment = await self.created(log, model)
        await log.append_input(attachment, 1, records(b"one"))
        await log.detach(attachment, b"left")
        await log.detach(attachment, b"left")
        assert await self.raw_ids(log, attachment.ref, "in") == ["1-0", "1-1", "1-2"]
        assert await self.raw_entry(log, attachment.ref, "in", "1-2") == b"left"
        assert not (await log.head(attachment.ref.session_id)).attached
        assert await log.renew([attachment], []) == [attachment]

    async def test_an_attachment_whose_lease_ran_out_counts_as_gone(self, settings: LogSettings, model: str) -> None:
        log = await self.make_log(replace(settings, lease_s=1.0))
        attachment = await self.created(log, model)
        await eventually(lambda: log.head(attachment.ref.session_id), lambda head: not head.attached)
        assert await log.renew([attachment], []) == []
        assert (await log.head(attachment.ref.session_id)).attached
        await log.close_connections()


class ClaimingPromises(LogStage):
    """What ``claim``, ``renew``, ``release``, ``checkpoint``, ``close`` and the fleet promise."""

    async def test_a_claim_takes_the_session_that_waits_longest(self, log: SessionLog, model: str) -> None:
        first, second = await self.created(log, model), await self.created(log, model)
        assert await log.waiting(model) == 2
        claim, head = await self.must_claim(log, "worker-1", model)
        assert (claim.ref, claim.fence, claim.worker, claim.model) == (first.ref, 1, "worker-1", model)
        assert (head.state, head.worker, head.fence, head.output) == ("claimed", "worker-1", 1, EntryId(1, 0))
        assert head == await log.head(first.ref.session_id)
        assert await self.raw_ids(log, first.ref, "out") == ["1-0"]
        assert await log.waiting(model) == 1
        assert (await self.must_claim(log, "worker-2", model))[0].ref == second.ref
        assert await log.claim("worker-3", [model]) is None
        assert await log.waiting(model) == 0

    async def test_a_worker_gets_only_sessions_of_its_models(self, log: SessionLog, model: str) -> None:
        await self.created(log, model)
        assert await log.claim("worker-1", [f"{model}-other"]) is None
        assert await log.claim("worker-1", []) is None
        assert await log.claim("worker-1", [f"{model}-other", model]) is not None

    async def test_a_newer_claim_fences_the_older_one(self, hasty_log: SessionLog, model: str) -> None:
        attachment, old = await self.claimed(hasty_log, model)
        await hasty_log.append_output(old, 1, records(b"one"))
        new, head = await self.must_claim(hasty_log, "worker-2", model)
        assert (new.fence, head.worker, head.output) == (2, "worker-2", EntryId(2, 1))
        for attempt in (
            hasty_log.append_output(old, 2, records(b"late")),
            hasty_log.append_output(old, 1, records(b"one")),
            hasty_log.checkpoint(old, b"late"),
            hasty_log.trim_audio(old, input_before=EntryId(9, 9), output_before=9),
            hasty_log.release(old),
            hasty_log.close(old, "late"),
        ):
            with pytest.raises(Fenced):
                await attempt
        assert await hasty_log.renew([], [old, new]) == [old]
        await hasty_log.append_output(new, 2, records(b"two"))
        assert await self.raw_ids(hasty_log, attachment.ref, "out") == ["1-0", "1-1", "2-0", "2-2"]

    async def test_renewing_keeps_a_claim(self, settings: LogSettings, model: str) -> None:
        # A lease that lasts through a moment in which this machine does something else.
        log = await self.make_log(replace(settings, lease_s=1.0))
        attachment, claim = await self.claimed(log, model)
        until = time.monotonic() + 2.0
        while time.monotonic() < until:
            assert await log.renew([attachment], [claim]) == []
            assert await log.claim("worker-2", [model]) is None
            await asyncio.sleep(0.02)
        assert (await log.head(attachment.ref.session_id)).attached
        await log.close_connections()

    async def test_renewing_nothing_is_fine(self, log: SessionLog) -> None:
        assert await log.renew([], []) == []

    async def test_leases_of_many_sessions_are_renewed_together(self, log: SessionLog, model: str) -> None:
        pairs = [await self.claimed(log, model) for _ in range(20)]
        await log.close(pairs[7][1], "done")
        lost = await log.renew([attachment for attachment, _ in pairs], [claim for _, claim in pairs])
        assert set(lost) == set(pairs[7])

    async def test_a_released_session_waits_again_at_once(self, log: SessionLog, model: str) -> None:
        attachment, claim = await self.claimed(log, model)
        await log.release(claim)
        head = await log.head(attachment.ref.session_id)
        assert (head.state, head.worker) == ("waiting", "")
        assert await log.waiting(model) == 1
        assert await log.renew([], [claim]) == [claim]
        assert (await self.must_claim(log, "worker-2", model))[0].fence == 2

    async def test_waiting_for_ready_ends_when_a_session_waits(self, log: SessionLog, model: str) -> None:
        assert await log.claim("worker-1", [model]) is None
        waiter = asyncio.create_task(log.wait_for_ready(30.0))
        await self.created(log, model)
        await asyncio.wait_for(waiter, 20)
        assert await eventually(lambda: log.claim("worker-1", [model]))

    async def test_waiting_for_ready_ends_in_time(self, log: SessionLog, model: str) -> None:
        assert await log.claim("worker-1", [model]) is None
        await asyncio.wait_for(log.wait_for_ready(0.05), 30)

    async def test_the_last_checkpoint_is_kept(self, log: SessionLog, model: str) -> None:
        attachment, claim = await self.claimed(log, model)
        await log.checkpoint(claim, b"first", opening=b"\x00answer\xff")
        await log.checkpoint(claim, b"second\x00")
        head = await log.head(attachment.ref.session_id)
        assert (head.checkpoint, head.opening) == (b"second\x00", b"\x00answer\xff")

    async def test_acknowledging_only_goes_up(self, log: SessionLog, model: str) -> None:
        attachment, _ = await self.claimed(log, model)
        for seq in (3, 1, 7, 7):
            await log.acknowledge(attachment, seq)
        assert (await log.head(attachment.ref.session_id)).acknowledged_seq == 7

    async def test_nothing_can_be_done_to_a_closed_session(self, log: SessionLog, model: str) -> None:
        attachment, claim = await self.claimed(log, model)
        await log.append_input(attachment, 1, records(b"said"))
        await log.append_output(claim, 1, records(b"heard"))
        before = await log.head(attachment.ref.session_id)
        await log.close(claim, "done")
        await log.close(claim, "done again")
        for attempt in (
            log.append_input(attachment, 2, records(b"late")),
            log.append_output(claim, 2, records(b"late")),
            log.acknowledge(attachment, 1),
            log.checkpoint(claim, b"late"),
            log.release(claim),
            log.detach(attachment, b"late"),
            self.attached(log, attachment.ref, b"token-1", b"token-2"),
        ):
            with pytest.raises(SessionUnknown):
                await attempt
        assert await log.claim("worker-2", [model]) is None
        assert set(await log.renew([attachment], [claim])) == {attachment, claim}
        after = await log.head(attachment.ref.session_id)
        assert (after.state, after.attached) == ("closed", False)
        assert (after.output, after.input, after.first_seq) == (before.output, before.input, before.first_seq)
        assert [entry.body for entry in await log.read_output(attachment.ref, 0)] == [b"heard"]
        assert await self.raw_ids(log, attachment.ref, "in") == ["1-0", "1-1"]

    async def test_a_closed_session_is_forgotten_after_the_retention(self, hasty_log: SessionLog, model: str) -> None:
        attachment, claim = await self.claimed(hasty_log, model)
        session_id = attachment.ref.session_id
        await hasty_log.close(claim, "done")

        async def is_forgotten() -> bool:
            try:
                await hasty_log.head(session_id)
            except SessionUnknown:
                return True
            return False

        await eventually(is_forgotten)
        with pytest.raises(SessionUnknown):
            await hasty_log.read_output(attachment.ref, 0)
        assert session_id not in [head.ref.session_id for head in await hasty_log.sessions()]
        assert await hasty_log.next_incarnation(session_id) == SessionRef(session_id, 0)

    async def test_a_store_that_was_emptied_is_never_filled_silently(self, log: SessionLog, model: str) -> None:
        attachment, claim = await self.claimed(log, model)
        await log.append_input(attachment, 1, records(b"one"))
        await log.append_output(claim, 1, records(b"one"))
        await self.raw_erase(log, attachment.ref)
        for attempt in (
            log.append_input(attachment, 2, records(b"two")),
            log.append_output(claim, 2, records(b"two")),
            log.checkpoint(claim, b"two"),
            log.head(attachment.ref.session_id),
            log.read_output(attachment.ref, 0),
            log.read_input(attachment.ref, EntryId(0, 0)),
        ):
            with pytest.raises(SessionUnknown):
                await attempt
        assert set(await log.renew([attachment], [claim])) == {attachment, claim}
        for stream in ("in", "out", "in-audio", "out-audio"):
            assert await self.raw_ids(log, attachment.ref, stream) == []

    async def test_sessions_are_listed_open_and_closed(self, log: SessionLog, model: str) -> None:
        waiting = await self.created(log, model, f"{model}-a")
        closed, claim = waiting, (await self.must_claim(log, "worker-1", model))[0]
        await log.close(claim, "done")
        reopened = await self.created(log, model, closed.ref.session_id)
        other = await self.created(log, model, f"{model}-b")
        mine = [head for head in await log.sessions() if head.model == model]
        assert {(head.ref, head.state) for head in mine} == {(reopened.ref, "waiting"), (other.ref, "waiting")}

    async def test_workers_are_known_while_they_say_so(self, log: SessionLog, model: str) -> None:
        card = WorkerCard(worker=model, models={"echo": b"\x00described\xff"}, slots=4, used=1)
        await log.register(card)
        assert card in await log.fleet()
        busier = WorkerCard(worker=model, models={}, slots=4, used=2)
        await log.register(busier)
        assert [known for known in await log.fleet() if known.worker == model] == [busier]
        await log.unregister(model)
        assert model not in [known.worker for known in await log.fleet()]
        await log.unregister(model)

    async def test_a_silent_worker_is_forgotten(self, hasty_log: SessionLog, model: str) -> None:
        await hasty_log.register(WorkerCard(worker=model, models={}, slots=1, used=0))
        await eventually(hasty_log.fleet, lambda cards: model not in [card.worker for card in cards])

    async def test_a_store_that_answers_is_pinged_and_connected_again(self, log: SessionLog) -> None:
        await log.ping()
        await log.connect()
        await log.ping()
