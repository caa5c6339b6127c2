"""Putting a session back that was carried away: closed, to be read, under the ids its entries had.

Nothing is written unless the store knows no session of this id; what is put back is gone after the retention time.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence

from .api import Entry, EntryId, Head, SessionLog, SessionRef
from .errors import LogError, SessionExists
from .keys import SessionKeys
from .memory import MemoryLog
from .memory_session import MemorySession
from .nodes import ask
from .redis import RedisLog

AT_ONCE = 200
REASON = "imported"

_PUBLISH = """
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
for n = 1, 6 do if n > 1 then redis.call('RENAME', KEYS[n + 6], KEYS[n]) end end
redis.call('HSET', KEYS[1], unpack(ARGV, 3))
local time = redis.call('TIME')
redis.call('ZADD', KEYS[13], time[1] * 1000 + tonumber(ARGV[1]), ARGV[2])
for n = 1, 6 do redis.call('PEXPIRE', KEYS[n], ARGV[1]) end
return 1
"""


async def restore(
    log: SessionLog,
    head: Head,
    input_entries: AsyncIterator[Entry],
    output_entries: AsyncIterator[Entry],
    snapshots: Sequence[tuple[int, bytes]],
) -> SessionRef:
    """Make ``head``'s session in ``log`` as a closed one with these entries; its ref there.

    The ref is the same as it was. Raises: SessionExists, LogUnavailable; LogError for a log of another kind.
    """
    if isinstance(log, MemoryLog):
        return await _into_memory(log, head, input_entries, output_entries, snapshots)
    if isinstance(log, RedisLog):
        return await _into_store(log, head, input_entries, output_entries, snapshots)
    raise LogError(f"{type(log).__name__} takes no session back")


def first_seqs(entries: Iterable[EntryId], head: Head) -> dict[int, int]:
    """Fence → the first seq it wrote, of what is left; the newest fence is always there."""
    found: dict[int, int] = {}
    for entry_id in entries:
        found.setdefault(entry_id.generation, entry_id.number)
    found.setdefault(head.fence, head.output.number + 1)
    return found


async def _into_memory(
    log: MemoryLog,
    head: Head,
    input_entries: AsyncIterator[Entry],
    output_entries: AsyncIterator[Entry],
    snapshots: Sequence[tuple[int, bytes]],
) -> SessionRef:
    if any(known.ref.session_id == head.ref.session_id for known in await log.sessions()):
        raise SessionExists(head.ref.session_id)
    session = MemorySession(head.ref, head.model, b"", generation=head.generation, gateway=head.gateway)
    session.fence, session.worker, session.created_ms = head.fence, head.worker, 0
    session.opening, session.checkpoint = head.opening, head.checkpoint
    session.acknowledged_seq, session.snapshots = head.acknowledged_seq, list(snapshots)
    session.input = [entry async for entry in input_entries]
    session.output = [entry async for entry in output_entries]
    session.last_input, session.last_seq = head.input, head.output.number
    session.first_seqs = first_seqs((entry.id for entry in session.output), head)
    log.adopt(session, REASON)
    return head.ref


async def _into_store(
    log: RedisLog,
    head: Head,
    input_entries: AsyncIterator[Entry],
    output_entries: AsyncIterator[Entry],
    snapshots: Sequence[tuple[int, bytes]],
) -> SessionRef:
    keys = SessionKeys.of(head.ref)
    if (await ask(log.nodes, ("EXISTS", keys.head)))[0]:
        raise SessionExists(head.ref.session_id)
    streams = [keys.input.records, keys.input.audio, keys.output.records, keys.output.audio, keys.snap]
    # Written aside first: an id that is opened meanwhile is not disturbed.
    aside = [f"{key}:importing" for key in streams]
    retention_ms = int(log.settings.retention_s * 1000)
    await ask(log.nodes, *(("DEL", key) for key in aside))
    await fill(log, aside[0], aside[1], input_entries, EntryId(head.generation + 1, 0), retention_ms)
    ids = await fill(log, aside[2], aside[3], output_entries, EntryId(head.fence + 1, 0), retention_ms)
    claims = "".join(f"{fence}:{first};" for fence, first in sorted(first_seqs(ids, head).items()))
    kept: list[bytes | str | int] = ["claims", claims, "closed_seq", head.output.number]
    if head.checkpoint is not None:
        kept += ["current", head.checkpoint]
    for names, one in zip((("snapshot_seq", "snapshot"), ("older_seq", "older")), reversed(snapshots), strict=False):
        kept += [names[0], one[0], names[1], one[1]]
    await ask(log.nodes, ("HSET", aside[4], *kept), ("PEXPIRE", aside[4], retention_ms))
    fields: dict[str, bytes | str | int] = {
        "incarnation": head.ref.incarnation, "model": head.model, "state": "closed", "reason": REASON,
        "generation": head.generation, "attached_until": 0, "gateway": head.gateway, "fence": head.fence,
        "worker": head.worker, "claims": claims, "acknowledged": head.acknowledged_seq, "token": "",
        "closed_input": str(head.input), "closed_seq": head.output.number,
        **({} if head.opening is None else {"opening": head.opening}),
    }  # fmt: skip
    flat = [part for pair in fields.items() for part in pair]
    named = [keys.head, *streams, f"{keys.head}:importing", *aside, keys.sessions]
    done = await ask(log.nodes, ("EVAL", _PUBLISH, len(named), *named, retention_ms, keys.member, *flat))
    if not done[0]:
        await ask(log.nodes, *(("DEL", key) for key in aside))
        raise SessionExists(head.ref.session_id)
    return head.ref


async def fill(
    log: RedisLog, records: str, audio: str, entries: AsyncIterator[Entry], over: EntryId, retention_ms: int
) -> list[EntryId]:
    """Write both twins of a stream, closed for good by an id ``over`` all writers'; the ids of the entries."""
    ids = await write_entries(log, records, audio, entries)
    commands: list[tuple[bytes | str | int, ...]] = []
    for key in (records, audio):
        commands += [("XADD", key, str(over), "m", ""), ("XDEL", key, str(over)), ("PEXPIRE", key, retention_ms)]
    await ask(log.nodes, *commands)
    return ids


async def write_entries(log: RedisLog, records: str, audio: str, entries: AsyncIterator[Entry]) -> list[EntryId]:
    """Write ``entries`` to both twins of a stream, many at once, under the ids they have; those ids."""
    ids: list[EntryId] = []
    commands: list[tuple[bytes | str | int, ...]] = []
    async for entry in entries:
        ids.append(entry.id)
        if entry.audio is not None:
            commands.append(("XADD", audio, str(entry.id), "b", entry.audio))
        commands.append(("XADD", records, str(entry.id), "m", entry.body))
        if len(commands) >= AT_ONCE:
            await ask(log.nodes, *commands)
            commands = []
    if commands:
        await ask(log.nodes, *commands)
    return ids
