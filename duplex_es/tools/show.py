"""A store opened for reading, and a session in it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ..log.api import Head, SessionLog
from ..log.errors import ConfigurationError, LogUnavailable, SessionUnknown
from ..log.observing import UNOBSERVED, LogObserver
from ..log.opening import open_log
from ..log.settings import LogSettings
from ..reading.records import Line, read_lines
from .errors import ToolError


@asynccontextmanager
async def opened(redis_url: str, observer: LogObserver = UNOBSERVED) -> AsyncIterator[SessionLog]:
    """A connected log, closed at the end. Raises: ToolError when the store cannot be reached."""
    try:
        # Only read: what would survive is of no concern here.
        log = open_log(redis_url, LogSettings(durability="memory", observer=observer))
    except (ValueError, ConfigurationError) as error:
        raise ToolError(f"{redis_url}: {error}") from error
    try:
        await log.connect()
        yield log
    except ConfigurationError as error:
        raise ToolError(f"{redis_url}: {error}") from error
    except LogUnavailable as error:
        raise ToolError(f"the store at {redis_url} does not answer: {error}") from error
    finally:
        await log.close_connections()


async def read_session(log: SessionLog, session_id: str) -> tuple[Head, list[Line]]:
    """Where the session stands, and its records. Raises: ToolError when there is no such session."""
    try:
        head = await log.head(session_id)
        return head, await read_lines(log, head.ref, first_seq=head.first_seq)
    except SessionUnknown as error:
        raise ToolError(f"no session {session_id!r} in this store") from error


def summary(head: Head) -> str:
    """One line about a session."""
    attached = f"socket {head.generation} on {head.gateway}" if head.attached else "no socket"
    claimed = f"claim {head.fence} of {head.worker}" if head.fence else "no worker yet"
    return f"{head.ref.session_id} #{head.ref.incarnation}: {head.state}, {head.model}, {attached}, {claimed}"
