"""Following a live call from a page: server-sent events that say where it is by now."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable

from duplex_es.log.api import Head
from duplex_es.log.errors import LogError
from duplex_es.reading.errors import ReadingError
from duplex_es.reading.source import Source
from duplex_es.timeline.builder import position_of

LOOK_S = 0.5
QUIET_S = 15.0
"""After so long without news a comment is sent, so that whatever stands between does not cut the line."""
END = "event: end\ndata: {}\n\n"


async def positions(
    source: Source, head: Head, after: str, stopping: Callable[[], bool], *, look_s: float = LOOK_S
) -> AsyncIterator[str]:
    """An event each time that the session has moved on from ``after``; ``end`` when it is closed, or gone.

    Without ``end`` the gateway stops, and the page asks the next one by itself.
    """
    quiet_s = 0.0
    while True:
        if (position := position_of(head)) != after:
            after, quiet_s = position, 0.0
            yield _event(head)
        if head.state == "closed":
            yield END
            return
        if stopping():
            return
        if quiet_s >= QUIET_S:
            quiet_s = 0.0
            yield ": still here\n\n"
        await asyncio.sleep(look_s)
        quiet_s += look_s
        try:
            newer = await source.find(head.ref.session_id)
        except LogError:
            continue
        except ReadingError:  # It is there no more.
            yield END
            return
        if newer.ref != head.ref:
            yield END
            return
        head = newer


def _event(head: Head) -> str:
    said = {
        "position": position_of(head),
        "state": head.state,
        "seq": head.output.number,
        "acknowledged": head.acknowledged_seq,
    }
    return f"event: moved\ndata: {json.dumps(said)}\n\n"
