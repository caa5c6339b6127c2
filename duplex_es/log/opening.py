"""From a URL to a log: ``memory://`` or a store, as ``addresses`` says."""

from __future__ import annotations

from .api import SessionLog
from .memory import MemoryLog
from .settings import LogSettings


def open_log(url: str, settings: LogSettings | None = None) -> SessionLog:
    """A log for ``memory://``, a server, a service behind sentinels, or a cluster; nothing is connected yet.

    Each ``memory://`` is a store of its own: processes and objects do not share it.

    Raises: ValueError for other URLs, ConfigurationError when redis-py is too old.
    """
    if url.startswith("memory:"):
        return MemoryLog(settings)
    from .redis import RedisLog

    return RedisLog.from_url(url, settings)
