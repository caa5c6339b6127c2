"""Reading stored entries: one XRANGE for the records, one for the audio of exactly those."""

from __future__ import annotations

from redis.exceptions import ResponseError

from .api import Entry, EntryId
from .connections import Exchange, Reply
from .keys import StreamKeys
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


def _entries(reply: Reply) -> list[tuple[bytes, bytes]]:
    """Id and only value of each entry of an XRANGE reply."""
    if isinstance(reply, ResponseError):
        raise refused(reply)
    return [(entry_id, fields[1]) for entry_id, fields in reply]
