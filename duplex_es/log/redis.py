"""The session log on Redis streams: which call does what. How it is done stands next door.

``scripts`` calls the Lua files, one for each rare operation; ``appender`` writes records; ``follower`` and
``subscriber`` deliver them; ``reading`` reads what is stored. A process holds four connections: one each for appends,
calls, reads of history, and subscriptions.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from redis.exceptions import ResponseError

from . import keys
from .api import Attachment, Claim, Entry, EntryId, Head, Record, SessionRef, WorkerCard
from .appender import Appender
from .connections import Command, ConnectionFactory, Link, Reply, connection_factory
from .errors import PositionGone, SessionExists, SessionUnknown
from .fitness import check_store
from .follower import RedisFollower, Standing
from .heads import head_from, standing_from
from .keys import SessionKeys
from .lanes import Lane
from .packing import claim_record, pack_card, unpack_card
from .reading import read_after
from .ready import ReadyFinder, announcement
from .scripts import Call, Scripts, refused, session_call
from .settings import LogSettings
from .subscriber import Subscriber
from .watch import WorkerWatch

# How news travels. Sharded on a cluster: this is the one place to say so.
SUBSCRIBE, UNSUBSCRIBE, PUBLISH = "SUBSCRIBE", "UNSUBSCRIBE", "PUBLISH"


class RedisLog:
    """A ``SessionLog`` on one Redis or Valkey node. Made outside of any event loop, used within one.

    ``check`` is off only for stand-ins that know no INFO.
    """

    def __init__(self, connect: ConnectionFactory, settings: LogSettings | None = None, *, check: bool = True) -> None:
        self.settings = settings or LogSettings()
        self._check = check
        self._scripts = Scripts()
        self._calls = Lane(Link(connect, "call", self.settings), self.settings)
        self._reads = Lane(Link(connect, "read", self.settings), self.settings)
        self.appender = Appender(Link(connect, "append", self.settings), self._scripts, self.settings, PUBLISH)
        self.subscriber = Subscriber(connect, self.settings, (SUBSCRIBE, UNSUBSCRIBE, PUBLISH))
        self._ready = ReadyFinder(self._calls.run, self.settings.sweep_interval_s)
        self._watch = WorkerWatch(self._calls.run, self._scripts, self.subscriber, self.settings)
        self._hears_ready = False
        self._followers: dict[str, set[RedisFollower]] = defaultdict(set)

    @classmethod
    def from_url(cls, url: str, settings: LogSettings | None = None) -> RedisLog:
        """A log for ``redis://``, ``rediss://`` or ``unix://``; nothing is connected yet. Raises: ValueError."""
        settings = settings or LogSettings()
        return cls(connection_factory(url, settings), settings)

    async def connect(self) -> None:
        """See ``SessionLog``."""
        if self._check:
            await check_store(self._calls.run)
        await self._scripts.load(self._calls.run)

    async def close_connections(self) -> None:
        """See ``SessionLog``."""
        await self._watch.close()
        await asyncio.gather(
            self.appender.close(), self._calls.close(), self._reads.close(), self.subscriber.close()
        )

    async def ping(self) -> None:
        """See ``SessionLog``."""
        await self._run(("SET", keys.PING, "1", "PX", 10_000))

    # -- the two ways to ask the store -----------------------------------------------------------------------------

    async def _call(self, name: str, session: SessionKeys, queue: str = "", **args: bytes | str | int) -> Reply:
        call = session_call(name, session, queue, incarnation=session.ref.incarnation, **args)
        return await self._scripts.call(self._calls.run, call)

    async def _run(self, *commands: Command) -> list[Reply]:
        replies = await self._calls.run(commands)
        for reply in replies:
            if isinstance(reply, ResponseError):
                raise refused(reply)
        return replies

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
        self.appender.knows(session, session.input, generation, 0)
        return Attachment(ref, generation, gateway)

    async def attach(
        self, ref: SessionRef, *, presented_digest: bytes, next_digest: bytes, gateway: str, record: bytes
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
            publish=PUBLISH,
        )
        self.appender.knows(session, session.input, generation, 0)
        return Attachment(ref, generation, gateway), head_from(ref.session_id, fields)

    async def confirm(self, attachment: Attachment) -> None:
        """See ``SessionLog``."""
        await self._call("confirm", SessionKeys.of(attachment.ref), generation=attachment.generation)

    async def detach(self, attachment: Attachment, record: bytes) -> None:
        """See ``SessionLog``."""
        session = SessionKeys.of(attachment.ref)
        # Its record takes the next index, so what was handed in before must have landed.
        await self.appender.drained(session.input, attachment.generation)
        await self._call("detach", session, generation=attachment.generation, record=record, publish=PUBLISH)

    async def claim(self, worker: str, models: Sequence[str]) -> tuple[Claim, Head] | None:
        """See ``SessionLog``."""
        await self._hear_ready()
        while candidate := await self._ready.find(models):
            session = SessionKeys.of(candidate.ref)
            claimed = await self._call(
                "claim",
                session,
                candidate.model,
                member=session.member,
                worker=worker,
                record=claim_record(worker, candidate.model),
                nonce=secrets.token_hex(8),
                lease_ms=self._lease_ms,
                publish=PUBLISH,
            )
            if claimed is not None:
                fence, fields = claimed
                head = head_from(candidate.ref.session_id, fields)
                self.appender.knows(session, session.output, fence, head.output.number)
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
                await self.subscriber.subscribe(keys.READY_CHANNEL, self._ready)
            except BaseException:
                self._hears_ready = False
                raise

    async def renew(self, attachments: Sequence[Attachment], claims: Sequence[Claim]) -> list[Attachment | Claim]:
        """See ``SessionLog``."""
        partitions: dict[int, list[Attachment | Claim]] = defaultdict(list)
        leases: list[Attachment | Claim] = [*attachments, *claims]
        for lease in leases:
            partitions[keys.partition_of(lease.ref.session_id)].append(lease)
        calls = [self._renewal(held) for held in partitions.values()]
        replies = await self._scripts.run(self._calls.run, calls) if calls else []
        lost: list[Attachment | Claim] = []
        for held, reply in zip(partitions.values(), replies, strict=True):
            if isinstance(reply, ResponseError):
                raise refused(reply)
            for lease, standing in zip(held, reply, strict=True):
                if not standing[0]:
                    lost.append(lease)
                self._notice(lease, standing)
        return lost

    def _renewal(self, leases: Sequence[Attachment | Claim]) -> Call:
        call_keys: list[str] = []
        args: list[str | int] = [self._lease_ms]
        for lease in leases:
            session = SessionKeys.of(lease.ref)
            if isinstance(lease, Claim):
                call_keys += [session.head, session.input.records, session.ready(lease.model)]
                args += ["c", lease.ref.incarnation, lease.fence, session.member]
            else:
                call_keys += [session.head, session.output.records, session.head]
                args += ["a", lease.ref.incarnation, lease.generation, session.member]
        return Call("renew", call_keys, args)

    def _notice(self, lease: Attachment | Claim, standing: Reply) -> None:
        """Let the followers of what this holder reads compare: a lost notification has no other witness."""
        _, state, attachment, fence, last, opened = standing
        session = SessionKeys.of(lease.ref)
        if isinstance(lease, Claim):
            channel, generation = session.input.channel, attachment
            position = EntryId.parse(last) if last else EntryId(0, 0)
        else:
            channel, generation = session.output.channel, fence
            position = EntryId(fence, int(last or 0))
        for follower in self._followers.get(channel, ()):
            follower.noticed(state.decode(), generation, attachment, position, bool(opened))

    async def release(self, claim: Claim) -> None:
        """See ``SessionLog``."""
        session = SessionKeys.of(claim.ref)
        await self.appender.drained(session.output, claim.fence)
        await self._call(
            "release",
            session,
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
            publish=PUBLISH,
        )

    async def acknowledge(self, attachment: Attachment, seq: int) -> None:
        """See ``SessionLog``."""
        await self._call("acknowledge", SessionKeys.of(attachment.ref), generation=attachment.generation, seq=seq)

    async def trim_audio(self, claim: Claim, *, input_before: EntryId, output_before: int) -> None:
        """See ``SessionLog``."""
        await self._call(
            "trim_audio",
            SessionKeys.of(claim.ref),
            fence=claim.fence,
            input_before=str(input_before),
            output_before=output_before,
        )

    async def close(self, claim: Claim, reason: str) -> None:
        """See ``SessionLog``."""
        session = SessionKeys.of(claim.ref)
        await self.appender.drained(session.output, claim.fence)
        await self._call(
            "close",
            session,
            claim.model,
            fence=claim.fence,
            reason=reason,
            retention_s=str(self.settings.retention_s),
            member=session.member,
            publish=PUBLISH,
        )

    # -- the hot path ----------------------------------------------------------------------------------------------

    async def append_input(self, attachment: Attachment, first_index: int, records: Sequence[Record]) -> None:
        """See ``SessionLog``."""
        session = SessionKeys.of(attachment.ref)
        await self.appender.append(session, session.input, attachment.generation, first_index, records)

    async def append_output(self, claim: Claim, first_seq: int, records: Sequence[Record]) -> None:
        """See ``SessionLog``."""
        session = SessionKeys.of(claim.ref)
        await self.appender.append(session, session.output, claim.fence, first_seq, records)

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
            entries = await read_after(self._reads.run, session.output, after, limit, audio)
            if not entries:
                break
            found += [entry for entry in entries if entry.id.number > after_seq]
            after = entries[-1].id
        return found[:limit]

    async def read_input(
        self, ref: SessionRef, after: EntryId, *, limit: int = 500, audio: bool = True
    ) -> list[Entry]:
        """See ``SessionLog``."""
        session = SessionKeys.of(ref)
        entries = await read_after(self._reads.run, session.input, after, limit, audio)
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
        follower = RedisFollower(
            lambda after, limit: read_after(self._reads.run, stream, after, limit, audio=True),
            lambda after_seq: self._look(session, after_seq, output=output),
            output=output,
            buffer_bytes=self.settings.follower_buffer_bytes,
        )
        await self.subscriber.subscribe(stream.channel, follower)
        self._followers[stream.channel].add(follower)
        try:
            yield follower
        finally:
            self.subscriber.unsubscribe(stream.channel, follower)
            self._followers[stream.channel].discard(follower)
            if not self._followers[stream.channel]:
                del self._followers[stream.channel]

    async def sessions(self) -> list[Head]:
        """See ``SessionLog``."""
        known = await self._run(*(("ZRANGE", keys.sessions(p), 0, -1) for p in range(keys.PARTITIONS)))
        refs = [keys.parse_member(name.decode()) for names in known for name in names]
        calls = [session_call("head", SessionKeys.of(ref), incarnation=ref.incarnation) for ref in refs]
        replies = await self._scripts.run(self._calls.run, calls) if calls else []
        found = [(ref, reply) for ref, reply in zip(refs, replies, strict=True) if reply is not None]
        for _, reply in found:
            if isinstance(reply, ResponseError):
                raise refused(reply)
        return [head_from(ref.session_id, reply) for ref, reply in found]

    # -- the fleet -------------------------------------------------------------------------------------------------

    async def register(self, card: WorkerCard) -> None:
        """See ``SessionLog``."""
        await self._watch.stand_for(card.worker)
        await self._run(
            *(("SADD", names, card.worker) for names in keys.FLEET_SETS),
            ("SET", keys.card(card.worker), pack_card(card), "PX", self._lease_ms),
        )

    async def unregister(self, worker: str) -> None:
        """See ``SessionLog``."""
        self._watch.leave(worker)
        await self._run(("DEL", keys.card(worker)), *(("SREM", names, worker) for names in keys.FLEET_SETS))

    async def fleet(self) -> list[WorkerCard]:
        """See ``SessionLog``."""
        (names,) = await self._run(("SMEMBERS", keys.WORKERS))
        workers = sorted(name.decode() for name in names)
        if not workers:
            return []
        (cards,) = await self._run(("MGET", *(keys.card(worker) for worker in workers)))
        dead = [worker for worker, data in zip(workers, cards, strict=True) if data is None]
        if dead:
            # One that registers at this very moment is back with its next call.
            await self._run(*(("SREM", names, *dead) for names in keys.FLEET_SETS))
        return [unpack_card(data) for data in cards if data is not None]

    async def waiting(self, model: str) -> int:
        """See ``SessionLog``."""
        ((seconds, microseconds),) = await self._run(("TIME",))
        now_ms = int(seconds) * 1000 + int(microseconds) / 1000
        counts = await self._run(
            *(("ZCOUNT", keys.ready(p, model), "-inf", repr(now_ms)) for p in range(keys.PARTITIONS))
        )
        return sum(counts)
