"""What operators may do with sessions whatever their owners do: end, shorten, replace, erase, and note it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable

from . import keys
from .api import Entry, EntryId, Head, Keeping, Life, SessionLog, SessionRef
from .connections import Reply
from .errors import LogError, SessionExists, SessionUnknown
from .keys import SessionKeys
from .memory import MemoryLog
from .memory_session import MemorySession
from .nodes import ask
from .redis import RedisLog
from .restoring import fill
from .scripts import Call, session_call

NOTES_MS = 400 * 86_400_000
"""How long what is noted stays in a store, counted from the last note about an id."""

_KEPT = ("claims", "closed_seq", "closed_input", "model", "created_ms", "generation", "gateway", "fence", "worker",
         "acknowledged", "opening")  # fmt: skip


def keeping_of(log: SessionLog) -> Keeping:
    """The ``Keeping`` of ``log``. Raises: LogError for a log of another kind."""
    if isinstance(log, RedisLog):
        return RedisKeeping(log)
    if isinstance(log, MemoryLog):
        return MemoryKeeping(log)
    raise LogError(f"{type(log).__name__} keeps nothing that an operator could change")


class RedisKeeping:
    """``Keeping`` on a store."""

    def __init__(self, log: RedisLog) -> None:
        self._log = log
        self._nodes = log.nodes

    async def _run(self, call: Call) -> Reply:
        return await self._nodes.scripts.call(self._nodes.calls, call)

    async def lives(self, session_id: str | None = None, *, closed: bool = False) -> list[Life]:
        """See ``Keeping``."""
        partitions = range(keys.PARTITIONS) if session_id is None else [keys.partition_of(session_id)]
        most = "(+inf" if closed else "+inf"
        listed = await ask(self._nodes, *(("ZRANGEBYSCORE", keys.sessions(p), "-inf", most) for p in partitions))
        refs = [keys.parse_member(name.decode()) for names in listed for name in names]
        found = [await self._life(ref) for ref in refs if session_id in (None, ref.session_id)]
        return [life for life in found if life is not None]

    async def _life(self, ref: SessionRef) -> Life | None:
        session = SessionKeys.of(ref)
        ((incarnation, created_ms),) = await ask(self._nodes, ("HMGET", session.head, "incarnation", "created_ms"))
        if incarnation is not None and int(incarnation) == ref.incarnation:
            try:
                head = await self._log.head(ref.session_id)
            except SessionUnknown:
                return None
            if head.ref == ref:
                return Life(head, int(created_ms or 0))
        look = await self._run(session_call("look", session, incarnation=ref.incarnation, after_seq=0))
        (fields,) = await ask(self._nodes, ("HMGET", session.snap, *_KEPT))
        kept = dict(zip(_KEPT, fields, strict=True))
        if look[0] == b"gone" or kept["fence"] is None:
            return None
        return Life(_past_head(ref, kept, int(look[5])), int(kept["created_ms"] or 0))

    async def terminate(self, ref: SessionRef, reason: str) -> None:
        """See ``Keeping``."""
        session = SessionKeys.of(ref)
        (model,) = await ask(self._nodes, ("HGET", session.head, "model"))
        if model is None:
            raise SessionUnknown(session.member)
        await self._run(
            session_call(
                "terminate",
                session,
                model.decode(),
                incarnation=ref.incarnation,
                reason=reason,
                retention_s=str(self._log.settings.retention_s),
                member=session.member,
                publish=self._nodes.publish,
            )
        )

    async def shorten(self, ref: SessionRef, retention_s: float) -> None:
        """See ``Keeping``."""
        session, retention_ms = SessionKeys.of(ref), max(1, int(retention_s * 1000))
        number = ref.incarnation
        await self._run(
            session_call("shorten", session, incarnation=number, retention_ms=retention_ms, member=session.member)
        )

    async def replace(
        self,
        life: Life,
        input_entries: AsyncIterator[Entry],
        output_entries: AsyncIterator[Entry],
        snapshot: tuple[int, bytes] | None = None,
    ) -> None:
        """See ``Keeping``."""
        head, session = life.head, SessionKeys.of(life.head.ref)
        streams = (session.input.records, session.input.audio, session.output.records, session.output.audio)
        written = [keys.aside(key) for key in streams]
        lasts_ms = int(self._log.settings.retention_s * 1000)
        await ask(self._nodes, *(("DEL", key) for key in written))
        await fill(self._log, written[0], written[1], input_entries, EntryId(head.generation + 1, 0), lasts_ms)
        await fill(self._log, written[2], written[3], output_entries, EntryId(head.fence + 1, 0), lasts_ms)
        seq, packed = ("", b"") if snapshot is None else (str(snapshot[0]), snapshot[1])
        await self._run(
            session_call(
                "replace",
                session,
                incarnation=head.ref.incarnation,
                opening=head.opening or b"",
                snapshot_seq=seq,
                snapshot=packed,
            )
        )

    async def erase(self, ref: SessionRef) -> None:
        """See ``Keeping``."""
        session = SessionKeys.of(ref)
        await self._run(session_call("erase", session, incarnation=ref.incarnation, member=session.member))

    async def note(self, session_id: str, note: bytes) -> None:
        """See ``Keeping``."""
        key = keys.notes(session_id)
        if note not in await self.notes(session_id):
            await ask(self._nodes, ("RPUSH", key, note))
        await ask(self._nodes, ("PEXPIRE", key, NOTES_MS))

    async def notes(self, session_id: str) -> list[bytes]:
        """See ``Keeping``."""
        (found,) = await ask(self._nodes, ("LRANGE", keys.notes(session_id), 0, -1))
        return list(found)


def _past_head(ref: SessionRef, kept: dict[str, bytes], first_seq: int) -> Head:
    """Where a life stood when it was closed, as its closing left it beside the streams."""
    return Head(
        ref=ref,
        model=kept["model"].decode(),
        state="closed",
        generation=int(kept["generation"]),
        attached=False,
        gateway=(kept["gateway"] or b"").decode(),
        fence=int(kept["fence"]),
        worker=(kept["worker"] or b"").decode(),
        output=EntryId(int(kept["fence"]), int(kept["closed_seq"])),
        input=EntryId.parse(kept["closed_input"]),
        first_seq=first_seq,
        acknowledged_seq=int(kept["acknowledged"] or 0),
        opening=kept["opening"],
        checkpoint=None,
    )


class MemoryKeeping:
    """``Keeping`` in this process."""

    def __init__(self, log: MemoryLog) -> None:
        self._log = log

    def _known(self) -> Iterable[MemorySession]:
        self._log._forget_expired()
        return [*self._log._past.values(), *self._log._current.values()]

    def _closed(self, ref: SessionRef) -> MemorySession:
        for session in self._known():
            if session.ref == ref:
                if session.state != "closed":
                    raise SessionExists(f"{ref} is open")
                return session
        raise SessionUnknown(str(ref))

    async def lives(self, session_id: str | None = None, *, closed: bool = False) -> list[Life]:
        """See ``Keeping``."""
        found = [session for session in self._known() if session_id in (None, session.ref.session_id)]
        found = [session for session in found if session.state == "closed" or not closed]
        return [Life(self._log._head(session), session.created_ms) for session in found]

    async def terminate(self, ref: SessionRef, reason: str) -> None:
        """See ``Keeping``."""
        session = self._log._newest(ref.session_id)
        if session.ref != ref:
            raise SessionUnknown(f"{ref} is over")
        if session.state != "closed":
            self._log._end(session, reason)

    async def shorten(self, ref: SessionRef, retention_s: float) -> None:
        """See ``Keeping``."""
        session, until_s = self._closed(ref), self._log._clock() + retention_s
        session.expires_s = until_s if session.expires_s is None else min(until_s, session.expires_s)

    async def replace(
        self,
        life: Life,
        input_entries: AsyncIterator[Entry],
        output_entries: AsyncIterator[Entry],
        snapshot: tuple[int, bytes] | None = None,
    ) -> None:
        """See ``Keeping``."""
        said, shown = [entry async for entry in input_entries], [entry async for entry in output_entries]
        session = self._closed(life.head.ref)
        session.input, session.output = said, shown
        session.snapshots = [] if snapshot is None else [snapshot]
        session.opening, session.checkpoint = life.head.opening, None

    async def erase(self, ref: SessionRef) -> None:
        """See ``Keeping``."""
        session = self._closed(ref)
        self._log._past.pop(ref, None)
        if self._log._current.get(ref.session_id) is session:
            del self._log._current[ref.session_id]
        session.changed()

    async def note(self, session_id: str, note: bytes) -> None:
        """See ``Keeping``."""
        kept = self._log.notes.setdefault(session_id, [])
        if note not in kept:
            kept.append(note)

    async def notes(self, session_id: str) -> list[bytes]:
        """See ``Keeping``."""
        return list(self._log.notes.get(session_id, ()))
