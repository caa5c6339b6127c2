"""Who called: what the client said of its user when it opened the session, or since."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec

from ..log.api import Entry, Head
from ..protocol.records import RecordUnreadable, unpack_opening
from ..reading.records import input_line

NAMES = ("safety_identifier", "caller", "caller_id", "user", "user_id")
"""Under these names, in the session's settings or in their ``metadata``, a client says who is calling."""


def callers_in(session: Any) -> list[str]:
    """Every name of a caller in a session's settings."""
    if not isinstance(session, dict):
        return []
    places = (session, session.get("metadata"))
    said = (place.get(name) for place in places if isinstance(place, dict) for name in NAMES)
    return list(dict.fromkeys(caller for caller in said if isinstance(caller, str) and caller))


async def callers_of(head: Head, entries: AsyncIterator[Entry]) -> list[str]:
    """Every name that a session's caller was given: in its opening answer, and in the input that is left."""
    found: list[str] = []
    if head.opening is not None:
        try:
            session = unpack_opening(head.opening).session
            found += [] if isinstance(session, msgspec.UnsetType) else callers_in(session)
        except RecordUnreadable:
            pass  # Its input may still say who it was.
    async for entry in entries:
        said = input_line(entry).said
        if "session" in said:
            found += callers_in(said["session"])
    return list(dict.fromkeys(found))
