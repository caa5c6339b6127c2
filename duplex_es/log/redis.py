"""The session log on Redis streams: which call does what. How it is done stands next door.

``scripts`` calls the Lua files, one for each rare operation; ``appender`` writes records; ``follower`` and
``subscriber`` deliver them; ``reading`` reads what is stored; ``durability`` knows what would survive. A process holds
four connections to each node: one each for appends, calls, reads of history, and subscriptions; a fifth for what is
safe, once it asks.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from redis.exceptions import ResponseError

from . import keys
from .addresses import parse_store_url
from .api import Attachment, Claim, Entry, EntryId, Head, Record, SessionRef, WorkerCard
from .cluster import ClusterNodes
from .connections import Command, ConnectionFactory, Reply, connection_factory
from .durability import persisted
from .errors import IncarnationMismatch, PositionGone, SessionExists, SessionUnknown, TailLost, TokenRefused
from .expiry import expire_unclaimed
from .fleet import Fleet
from .follower import RedisFollower, Standing
from .followers import Followers
from .heads import head_from, is_listed, standing_from
from .keys import SessionKeys, StreamKeys
from .nodes import Nodes, OneNode, ask, checked
from .observing import call_observed, persisted_observed
from .packing import claim_record
from .positions import Positions
from .reading import read_after, read_before, read_input_after
from .ready import ReadyFinder, announcement
from .renewal import renew
from .scripts import refused, session_call
from .sentinel import SentinelNode
from .settings import LogSettings
from .watch import WorkerWatch


class RedisLog:
    """A ``SessionLog`` on Redis or Valkey. Made outside of any event loop, used within one.

    ``store`` makes connections to its one node, or says how many there are. ``check`` is off only for stand-ins that
    know no INFO.
    """

    def __init__(
        self, store: ConnectionFactory | Nodes, settings: LogSettings | None = None, *, check: bool = True
    ) -> None:
        self.settings = settings or LogSettings()
        self._check = check
        self.nodes: Nodes = OneNode(store, self.settings) if callable(store) else store
        self._ready = ReadyFinder(self.nodes, self.settings.sweep_interval_s)
        self._watch = WorkerWatch(self.nodes, self.settings)
        self._fleet = Fleet(self.nodes, self.settings)
        self._hears_ready = False
        self._followers = Followers()
        self._positions = Positions()

    @classmethod
    def from_url(cls, url: str, settings: LogSettings | None = None) -> RedisLog:
        """A log for any URL of ``addresses``; nothing is connected yet.

        Raises: ValueError when it is none, ConfigurationError when redis-py is too old.
        """
        settings = settings or LogSettings()
        target = parse_store_url(url)
        if target.kind == "sentinel":
            return cls(SentinelNode(target, settings), settings)
        if target.kind == "cluster":
            return cls(ClusterNodes(target, settings), settings)
        return cls(connection_factory(url, settings), settings)

    async def connect(self) -> None:
        """See ``SessionLog``."""
        if self._check:
            await self.nodes.check()
        await self.nodes.scripts.load(self.nodes.calls)

    async def close_connections(self) -> None:
        """See ``SessionLog``."""
        await self._watch.close()
        await self.nodes.close()

    async def ping(self) -> None:
        """See ``SessionLog``."""
        await self._run(("SET", keys.PING, "1", "PX", 10_000))

    # -- the two ways to ask the store -----------------------------------------------------------------------------

    async def _call(self, name: str, session: SessionKeys, queue: str = "", **args: bytes | str | int) -> Reply:
        call = session_call(name, session, queue, incarnation=session.ref.incarnation, **args)
        return await call_observed(self.settings.observer, name, self.nodes.scripts.call(self.nodes.calls, call))

    async def _let_go(
        self,
        name: str,
        session: SessionKeys,
        stream: StreamKeys,
        number: int,
        queue: str = "",
        **args: bytes | str | int,
    ) -> None:
        """The last call of a writer: what it handed in has landed before, and a store that lost it has it again."""
        appender = await self.nodes.appender(session.slot)
        known = await appender.drained(stream, number)
        try:
            await self._call(name, session, queue, known=known, **args)
        except TailLost:
            await appender.restored(stream, number)
            # What is not there now nobody can write again.
            await self._call(name, session, queue, known=0, **args)
        appender.forget(stream, number)

    async def _run(self, *commands: Command) -> list[Reply]:
        return await ask(self.nodes, *commands)

    @property
    def _lease_ms(self) -> int:
        return int(self.settings.lease_s * 1000)

    # -- rare operations -------------------------------------------------------------------------------------------

    async def next_incarnation(self, session_id: str) -> SessionRef:
        """See ``SessionLog``."""
        ((incarnation, state),) = await self._run(("HMGET", keys.head(session_id), "incarnation", "state"))
        if incarnation is None:
            return SessionRef(session_id, 0)
        if state != b"closed":
            raise SessionExists(session_id)
        return SessionRef(session_id, int(incarnation) + 1)

    async def create(
        self, ref: SessionRef, *, model: str, token_digest: bytes, gateway: str, record: bytes
    ) -> Attachment:
        """See ``SessionLog``."""
        session = SessionKeys.of(ref)
        generation = await self._call(
            "create",
            session,
            model,
            model=model,
            token=token_digest,
            gateway=gateway,
            record=record,
            lease_ms=self._lease_ms,
            member=session.member,
            announcement=announcement(session.partition, model),
        )
        self._ready.announced(session.partition, model)
        (await self.nodes.appender(session.slot)).knows(session, session.input, generation, 0)
        return Attachment(ref, generation, gateway)

    async def attach(
        self,
        ref: SessionRef,
        *,
        presented_digest: bytes,
        next_digest: bytes,
        gateway: str,
        record: bytes,
        after_seq: int | None = None,
    ) -> tuple[Attachment, Head]:
        """See ``SessionLog``."""
        session = SessionKeys.of(ref)
        generation, fields = await self._call(
            "attach",
            session,
            presented=presented_digest,
            next=next_digest,
            gateway=gateway,
            record=record,
            lease_ms=self._lease_ms,
            publish=self.nodes.publish,
            after_seq="" if after_seq is None else after_seq,
        )
        head = head_from(ref.session_id, fields)
        appender = await self.nodes.appender(session.slot)
        right = appender.right(gateway, head.model, record, next_digest, presented_digest)
        appender.knows(session, session.input, generation, 0, right)
        return Attachment(ref, generation, gateway), head

    async def admit(self, ref: SessionRef, presented_digest: bytes) -> Head:
        """See ``SessionLog``."""
        fields = ("incarnation", "token", "recovery", "unconfirmed")
        ((incarnation, token, recovery, given),) = await self._run(("HMGET", keys.head(ref.session_id), *fields))
        if incarnation is None:
            raise SessionUnknown(ref.session_id)
        if int(incarnation) != ref.incarnation:
            raise IncarnationMismatch(f"{ref.session_id} is at incarnation {int(incarnation)}")
        head = await self.head(ref.session_id)
        recovers = presented_digest == recovery and not head.attached
        if presented_digest != token and not recovers and not is_listed(presented_digest, given or b""):
            raise TokenRefused(ref.session_id)
        return head

    async def confirm(self, attachment: Attachment) -> None:
        """See ``SessionLog``."""
        session = SessionKeys.of(attachment.ref)
        await self._call("confirm", session, generation=attachment.generation)
        (await self.nodes.appender(session.slot)).confirmed(session.input, attachment.generation)

    async def detach(self, attachment: Attachment, record: bytes) -> None:
        """See ``SessionLog``."""
        session = SessionKeys.of(attachment.ref)
        channel = session.output.channel
        await self._let_go(
            "detach",
            session,
            session.input,
            attachment.generation,
            generation=attachment.generation,
            record=record,
            publish=self.nodes.publish,
            passed=self._followers.passed(channel),
        )
        self._followers.forget(channel)

    async def claim(self, worker: str, models: Sequence[str]) -> tuple[Claim, Head] | None:
        """See ``SessionLog``."""
        await self._hear_ready()
        while candidate := await self._ready.find(models):
            session, record = SessionKeys.of(candidate.ref), claim_record(worker, candidate.model)
            claimed = await self._call(
                "claim",
                session,
                candidate.model,
                member=session.member,
                worker=worker,
                record=record,
                nonce=secrets.token_hex(8),
                lease_ms=self._lease_ms,
                publish=self.nodes.publish,
            )
            if claimed is not None:
                fence, fields = claimed
                head = head_from(candidate.ref.session_id, fields)
                appender = await self.nodes.appender(session.slot)
                right = appender.right(worker, candidate.model, record)
                appender.knows(session, session.output, fence, head.output.number, right)
                return Claim(candidate.ref, fence, worker, candidate.model), head
        return None

    async def wait_for_ready(self, timeout_s: float) -> None:
        """See ``SessionLog``."""
        await self._hear_ready()
        await self._ready.wait(timeout_s)

    async def _hear_ready(self) -> None:
        if not self._hears_ready:
            self._hears_ready = True
            try:
                await self.nodes.subscribe(keys.READY_CHANNEL, self._ready)
            except BaseException:
                self._hears_ready = False
                raise

    async def renew(self, attachments: Sequence[Attachment], claims: Sequence[Claim]) -> list[Attachment | Claim]:
        """See ``SessionLog``."""
        return await renew(self.nodes, self._followers, [*attachments, *claims], self.settings)

    async def release(self, claim: Claim) -> None:
        """See ``SessionLog``."""
        session = SessionKeys.of(claim.ref)
        await self._let_go(
            "release",
            session,
            session.output,
            claim.fence,
            claim.model,
            fence=claim.fence,
            member=session.member,
            announcement=announcement(session.partition, claim.model),
        )
        self._ready.announced(session.partition, claim.model)

    async def checkpoint(self, claim: Claim, checkpoint: bytes, *, opening: bytes | None = None) -> None:
        """See ``SessionLog``."""
        await self._call(
            "checkpoint",
            SessionKeys.of(claim.ref),
            fence=claim.fence,
            checkpoint=checkpoint,
            opens=int(opening is not None),
            opening=opening or b"",
            publish=self.nodes.publish,
        )

    async def snapshot(self, claim: Claim, seq: int, snapshot: bytes) -> None:
        """See ``SessionLog``."""
        await self._call("snapshot", SessionKeys.of(claim.ref), fence=claim.fence, seq=seq, snapshot=snapshot)

    async def acknowledge(self, attachment: Attachment, seq: int) -> None:
        """See ``SessionLog``."""
        await self._call("acknowledge", SessionKeys.of(attachment.ref), generation=attachment.generation, seq=seq)

    async def trim_audio(self, claim: Claim, *, input_before: EntryId, output_before: int) -> None:
        """See ``SessionLog``."""
        await self._trim("trim_audio", claim, input_before, output_before)

    async def trim_history(self, claim: Claim, *, input_before: EntryId, output_before: int) -> None:
        """See ``SessionLog``."""
        await self._trim("trim_history", claim, input_before, output_before)

    async def _trim(self, script: str, claim: Claim, input_before: EntryId, output_before: int) -> None:
        await self._call(
            script,
            SessionKeys.of(claim.ref),
            fence=claim.fence,
            input_before=str(input_before),
            output_before=output_before,
        )

    async def close(self, claim: Claim, reason: str) -> None:
        """See ``SessionLog``."""
        session = SessionKeys.of(claim.ref)
        await self._let_go(
            "close",
            session,
            session.output,
            claim.fence,
            claim.model,
            fence=claim.fence,
            reason=reason,
            retention_s=str(self.settings.retention_s),
            member=session.member,
            publish=self.nodes.publish,
        )

    async def expire_unclaimed(self, older_than_s: float) -> list[SessionRef]:
        """See ``SessionLog``."""
        nodes, retention_s = self.nodes, self.settings.retention_s
        return await expire_unclaimed(nodes.calls, nodes.scripts, older_than_s, retention_s, nodes.publish)

    # -- the hot path ----------------------------------------------------------------------------------------------

    async def append_input(self, attachment: Attachment, first_index: int, records: Sequence[Record]) -> None:
        """See ``SessionLog``."""
        session = SessionKeys.of(attachment.ref)
        appender = await self.nodes.appender(session.slot)
        await appender.append(session, session.input, attachment.generation, first_index, records)
        self._positions.wrote(session.input.channel, attachment.generation, first_index, len(records))

    async def append_output(self, claim: Claim, first_seq: int, records: Sequence[Record]) -> None:
        """See ``SessionLog``."""
        session = SessionKeys.of(claim.ref)
        appender = await self.nodes.appender(session.slot)
        await appender.append(session, session.output, claim.fence, first_seq, records)
        self._positions.wrote(session.output.channel, claim.fence, first_seq, len(records))

    async def persisted(self, ref: SessionRef) -> None:
        """See ``SessionLog``."""
        if self.settings.durability != "memory":
            session = SessionKeys.of(ref)
            asked = persisted(self.nodes, session, self._positions.known(session, self._followers), self.settings)
            await persisted_observed(self.settings.observer, asked)

    # -- reading ---------------------------------------------------------------------------------------------------

    async def head(self, session_id: str) -> Head:
        """See ``SessionLog``."""
        while True:
            (incarnation,) = await self._run(("HGET", keys.head(session_id), "incarnation"))
            if incarnation is None:
                raise SessionUnknown(session_id)
            fields = await self._call("head", SessionKeys.of(SessionRef(session_id, int(incarnation))))
            if fields is not None:  # else it was opened again in between
                return head_from(session_id, fields)

    async def _look(self, session: SessionKeys, after_seq: int, *, output: bool) -> Standing:
        return standing_from(await self._call("look", session, after_seq=after_seq), output=output)

    async def read_output(
        self, ref: SessionRef, after_seq: int, *, limit: int = 500, audio: bool = True
    ) -> list[Entry]:
        """See ``SessionLog``."""
        session = SessionKeys.of(ref)
        standing = await self._look(session, after_seq, output=True)
        if standing.state == "gone":
            raise SessionUnknown(session.member)
        if after_seq + 1 < standing.first_seq:
            raise PositionGone(standing.first_seq)
        found: list[Entry] = []
        after = standing.read_after
        while len(found) < limit:
            entries = await read_after(self.nodes.reads, session.output, after, limit, audio)
            if not entries:
                break
            found += [entry for entry in entries if entry.id.number > after_seq]
            after = entries[-1].id
        return found[:limit]

    async def read_snapshot(self, ref: SessionRef, *, below_seq: int | None = None) -> tuple[int, bytes] | None:
        """See ``SessionLog``."""
        session = SessionKeys.of(ref)
        for fields in (("snapshot_seq", "snapshot"), ("older_seq", "older")):
            ((seq, snapshot),) = checked(await self.nodes.reads([("HMGET", session.snap, *fields)]))
            if seq is not None and (below_seq is None or int(seq) < below_seq):
                return int(seq), snapshot
        if (await self._look(session, 0, output=True)).state == "gone":
            raise SessionUnknown(session.member)
        return None

    async def read_input(
        self, ref: SessionRef, after: EntryId, *, limit: int = 500, audio: bool = True
    ) -> list[Entry]:
        """See ``SessionLog``."""
        session = SessionKeys.of(ref)
        entries = await read_input_after(self.nodes.reads, session, after, limit, audio)
        if not entries and (await self._look(session, 0, output=False)).state == "gone":
            raise SessionUnknown(session.member)
        return entries

    async def read_input_back(
        self, ref: SessionRef, before: EntryId | None = None, *, limit: int = 100
    ) -> list[Entry]:
        """See ``SessionLog``."""
        session = SessionKeys.of(ref)
        entries = await read_before(self.nodes.reads, session.input, before, limit)
        if not entries and (await self._look(session, 0, output=False)).state == "gone":
            raise SessionUnknown(session.member)
        return entries

    @asynccontextmanager
    async def follow_output(self, ref: SessionRef) -> AsyncIterator[RedisFollower]:
        """See ``SessionLog``."""
        async with self._follow(SessionKeys.of(ref), output=True) as follower:
            yield follower

    @asynccontextmanager
    async def follow_input(self, ref: SessionRef) -> AsyncIterator[RedisFollower]:
        """See ``SessionLog``."""
        async with self._follow(SessionKeys.of(ref), output=False) as follower:
            yield follower

    @asynccontextmanager
    async def _follow(self, session: SessionKeys, *, output: bool) -> AsyncIterator[RedisFollower]:
        stream = session.output if output else session.input

        async def read(after: EntryId, limit: int) -> list[Entry]:
            if output:
                return await read_after(self.nodes.reads, stream, after, limit, audio=True)
            return await read_input_after(self.nodes.reads, session, after, limit, audio=True)

        follower = RedisFollower(
            read,
            lambda after_seq: self._look(session, after_seq, output=output),
            output=output,
            buffer_bytes=self.settings.follower_buffer_bytes,
            observer=self.settings.observer,
        )
        await self.nodes.subscribe(stream.channel, follower)
        self._followers.add(stream.channel, follower)
        try:
            yield follower
        finally:
            self.nodes.unsubscribe(stream.channel, follower)
            self._followers.discard(stream.channel, follower)

    async def sessions(self) -> list[Head]:
        """See ``SessionLog``."""
        known = await self._run(*(("ZRANGE", keys.sessions(p), 0, -1) for p in range(keys.PARTITIONS)))
        refs = [keys.parse_member(name.decode()) for names in known for name in names]
        calls = [session_call("head", SessionKeys.of(ref), incarnation=ref.incarnation) for ref in refs]
        replies = await self.nodes.scripts.run(self.nodes.calls, calls) if calls else []
        found = [(ref, reply) for ref, reply in zip(refs, replies, strict=True) if reply is not None]
        for _, reply in found:
            if isinstance(reply, ResponseError):
                raise refused(reply)
        return [head_from(ref.session_id, reply) for ref, reply in found]

    # -- the fleet -------------------------------------------------------------------------------------------------

    async def register(self, card: WorkerCard) -> None:
        """See ``SessionLog``."""
        await self._watch.stand_for(card.worker)
        await self._fleet.register(card)

    async def unregister(self, worker: str) -> None:
        """See ``SessionLog``."""
        self._watch.leave(worker)
        await self._fleet.unregister(worker)

    async def fleet(self) -> list[WorkerCard]:
        """See ``SessionLog``."""
        return await self._fleet.cards()

    async def waiting(self, model: str) -> int:
        """See ``SessionLog``."""
        return await self._fleet.waiting(model)
