"""Reading stored entries: one XRANGE for the records, one for the audio of exactly those."""

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
    (found,) = await exchange([("XRANGE", stream.records, f"({after}", "+", "COUNT", limit)])
    records = _entries(found)
    if not records or not audio:
        return [Entry(EntryId.parse(entry_id), body) for entry_id, body in records]
    # Audio is written before its record: what has a record by now has its audio, too.
    (found,) = await exchange([("XRANGE", stream.audio, records[0][0], records[-1][0])])
    sounds = dict(_entries(found))
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
