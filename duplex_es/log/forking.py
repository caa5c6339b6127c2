"""Beginning a session where another one was: its entries so far, under a new id, waiting for a worker and a client.

A worker takes such a session over as it takes over one whose worker died; a client resumes it with the token. Nothing
is written unless the store knows no session of this id.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from .api import Entry, Head, SessionLog
from .errors import LogError, SessionExists
from .keys import SessionKeys
from .memory import MemoryLog
from .memory_session import MemorySession
from .nodes import ask
from .ready import announcement
from .redis import RedisLog
from .restoring import first_seqs, write_entries

ABANDONED_AFTER_MS = 60_000
"""What was written aside by a process that died since is gone by then."""

_PUBLISH = """
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
local time = redis.call('TIME')
local now = time[1] * 1000 + time[2] / 1000
for n = 2, 6 do
  if redis.call('EXISTS', KEYS[n + 5]) == 1 then
    redis.call('RENAME', KEYS[n + 5], KEYS[n])
    redis.call('PERSIST', KEYS[n])
  end
end
redis.call('HSET', KEYS[1], 'state', 'waiting', 'attached_until', 0, 'left_ms', math.floor(now),
  'created_ms', math.floor(now), unpack(ARGV, 3))
redis.call('ZADD', KEYS[12], now, ARGV[1])
redis.call('ZADD', KEYS[13], '+inf', ARGV[1])
redis.call('PUBLISH', 'dx:ready', ARGV[2])
return 1
"""


async def begin_from(
    log: SessionLog,
    head: Head,
    token_digest: bytes,
    input_entries: Sequence[Entry],
    output_entries: Sequence[Entry],
    snapshots: Sequence[tuple[int, bytes]] = (),
) -> None:
    """Make ``head``'s session in ``log``, open, held by nobody, with these entries; at least one in each stream.

    Of ``head`` count the ref, the model, the generation, the gateway, the fence and the opening; the next attachment
    and the next claim are numbered from there.
    Raises: SessionExists, LogUnavailable; LogError for a log of another kind.
    """
    if isinstance(log, MemoryLog):
        await _in_memory(log, head, token_digest, input_entries, output_entries, snapshots)
    elif isinstance(log, RedisLog):
        await _in_store(log, head, token_digest, input_entries, output_entries, snapshots)
    else:
        raise LogError(f"{type(log).__name__} takes no session that was begun elsewhere")


async def _in_memory(
    log: MemoryLog,
    head: Head,
    token_digest: bytes,
    input_entries: Sequence[Entry],
    output_entries: Sequence[Entry],
    snapshots: Sequence[tuple[int, bytes]],
) -> None:
    if any(known.ref.session_id == head.ref.session_id for known in await log.sessions()):
        raise SessionExists(head.ref.session_id)
    session = MemorySession(head.ref, head.model, token_digest, generation=head.generation, gateway=head.gateway)
    session.fence, session.opening, session.snapshots = head.fence, head.opening, list(snapshots[-2:])
    session.input, session.output = list(input_entries), list(output_entries)
    session.last_input, session.last_seq = session.input[-1].id, session.output[-1].id.number
    session.first_seqs = first_seqs((entry.id for entry in session.output), head)
    log.adopt(session, None)


async def _in_store(
    log: RedisLog,
    head: Head,
    token_digest: bytes,
    input_entries: Sequence[Entry],
    output_entries: Sequence[Entry],
    snapshots: Sequence[tuple[int, bytes]],
) -> None:
    keys = SessionKeys.of(head.ref)
    if (await ask(log.nodes, ("EXISTS", keys.head)))[0]:
        raise SessionExists(head.ref.session_id)
    streams = [keys.input.records, keys.input.audio, keys.output.records, keys.output.audio, keys.snap]
    aside = [f"{key}:forking" for key in streams]
    await ask(log.nodes, *(("DEL", key) for key in aside))
    await _fill(log, aside[0], aside[1], input_entries)
    await _fill(log, aside[2], aside[3], output_entries)
    for names, one in zip((("snapshot_seq", "snapshot"), ("older_seq", "older")), reversed(snapshots), strict=False):
        await ask(log.nodes, ("HSET", aside[4], names[0], one[0], names[1], one[1]))
    await ask(log.nodes, *(("PEXPIRE", key, ABANDONED_AFTER_MS) for key in aside))
    firsts = first_seqs((entry.id for entry in output_entries), head)
    fields: dict[str, bytes | str | int] = {
        "incarnation": head.ref.incarnation, "model": head.model, "generation": head.generation,
        "gateway": head.gateway, "fence": head.fence, "worker": "", "acknowledged": 0, "token": token_digest,
        "claims": "".join(f"{fence}:{first};" for fence, first in sorted(firsts.items())),
        **({} if head.opening is None else {"opening": head.opening}),
    }  # fmt: skip
    flat = [part for pair in fields.items() for part in pair]
    named = [keys.head, *streams, *aside, keys.ready(head.model), keys.sessions]
    news = announcement(keys.partition, head.model)
    done = await ask(log.nodes, ("EVAL", _PUBLISH, len(named), *named, keys.member, news, *flat))
    if not done[0]:
        await ask(log.nodes, *(("DEL", key) for key in aside))
        raise SessionExists(head.ref.session_id)


async def _fill(log: RedisLog, records: str, audio: str, entries: Sequence[Entry]) -> None:
    """Write both twins of a stream, which end at the same id: an older one can never be written any more."""
    await write_entries(log, records, audio, _each(entries))
    last = entries[-1]
    if last.audio is None:
        await ask(log.nodes, ("XADD", audio, str(last.id), "m", ""), ("XDEL", audio, str(last.id)))


async def _each(entries: Sequence[Entry]) -> AsyncIterator[Entry]:
    for entry in entries:
        yield entry
