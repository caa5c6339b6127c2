"""From a URL to a log: ``memory://`` or anything redis-py understands."""

from __future__ import annotations

from .api import SessionLog
from .memory import MemoryLog
from .settings import LogSettings


def open_log(url: str, settings: LogSettings | None = None) -> SessionLog:
    """A log for ``memory://``, ``redis://``, ``rediss://`` or ``unix://``; nothing is connected yet.

    Each ``memory://`` is a store of its own: processes and objects do not share it. Raises: ValueError for others.
    """
    if url.startswith("memory:"):
        return MemoryLog(settings)
    from .redis import RedisLog

    return RedisLog.from_url(url, settings)
