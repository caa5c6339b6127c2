"""Reading stored entries: one XRANGE for the records, one beside it for their audio."""

from __future__ import annotations

from redis.exceptions import ResponseError

from .api import Entry, EntryId
from .connections import Exchange, Reply
from .errors import PositionGone
from .keys import SessionKeys, StreamKeys
from .scripts import refused


async def read_after(exchange: Exchange, stream: StreamKeys, after: EntryId, limit: int, audio: bool) -> list[Entry]:
    """Up to ``limit`` entries with an id above ``after``, ascending, generation records included.

    A missing stream reads as empty. Audio that has expired, or that never was, is ``None``.
    """
    wanted = (stream.records, stream.audio) if audio else (stream.records,)
    # In one pipeline, which is answered or asked again as a whole: a store that comes back without its last moments in
    # between would give the record of one life without the audio of it. Audio is written before its record, under ids
    # that records have, so the first ones of it are those of these records.
    found = await exchange([("XRANGE", key, f"({after}", "+", "COUNT", limit) for key in wanted])
    records, sounds = _entries(found[0]), dict(_entries(found[1])) if audio else {}
    return [Entry(EntryId.parse(entry_id), body, sounds.get(entry_id)) for entry_id, body in records]


async def read_input_after(
    exchange: Exchange, session: SessionKeys, after: EntryId, limit: int, audio: bool
) -> list[Entry]:
    """As ``read_after`` of the session's input. Raises: PositionGone when something above ``after`` was trimmed."""
    entries = await read_after(exchange, session.input, after, limit, audio)
    # Asked last: what was trimmed while this read went on is gone for the next one, too.
    (trimmed,) = await exchange([("HGET", session.snap, "trimmed")])
    if isinstance(trimmed, ResponseError):
        raise refused(trimmed)
    if trimmed is not None and after < (last := EntryId.parse(trimmed)):
        raise PositionGone(last.number + 1, last)
    return entries


async def read_before(exchange: Exchange, stream: StreamKeys, before: EntryId | None, limit: int) -> list[Entry]:
    """Up to ``limit`` entries with an id below ``before``, else the last ones, newest first, without audio."""
    top = "+" if before is None else f"({before}"
    (found,) = await exchange([("XREVRANGE", stream.records, top, "-", "COUNT", limit)])
    return [Entry(EntryId.parse(entry_id), body) for entry_id, body in _entries(found)]


def _entries(reply: Reply) -> list[tuple[bytes, bytes]]:
    """Id and only value of each entry of an XRANGE reply."""
    if isinstance(reply, ResponseError):
        raise refused(reply)
    return [(entry_id, fields[1]) for entry_id, fields in reply]
