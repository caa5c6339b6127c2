"""What a client said that arrived: the id of its last event, read from the end of the session's input."""

from __future__ import annotations

from dataclasses import dataclass

from duplex_es.log.api import Attachment, Entry, EntryId, SessionLog
from duplex_es.protocol import RecordUnreadable, unpack_input

PAGES = (64, 512, 512, 1024, 2048)
"""Entries read at a time, newest first. A client that names its events is found on the first page."""
_BEGINNING = EntryId(1, 0)


@dataclass(frozen=True, slots=True)
class Heard:
    """The id of the last client event that bears one; ``None`` when none arrived. Not ``known``: who can say."""

    event_id: str | None = None
    known: bool = True


UNKNOWN = Heard(known=False)


async def last_heard(log: SessionLog, attachment: Attachment) -> Heard:
    """What arrived before ``attachment``. Nothing can be added to it any more: the older sockets are fenced off.

    Not known when the part of the input that is there, or worth reading, does not tell.
    Raises: LogError as ``read_input_back``.
    """
    before = EntryId(attachment.generation, 0)
    for page in PAGES:
        entries = await log.read_input_back(attachment.ref, before, limit=page)
        for entry in entries:
            if (event_id := _client_event_id(entry)) is not None:
                return Heard(event_id)
        if entries and entries[-1].id == _BEGINNING:
            return Heard()
        if len(entries) < page:
            return UNKNOWN
        before = entries[-1].id
    return UNKNOWN


def _client_event_id(entry: Entry) -> str | None:
    try:
        said = unpack_input(entry.body).said
    except RecordUnreadable:
        return None
    event_id = getattr(said, "event_id", None)
    return event_id if isinstance(event_id, str) else None
