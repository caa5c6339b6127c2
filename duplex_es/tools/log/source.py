"""What a command reads: the store or the file that its command line names."""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ...log.errors import LogUnavailable, SessionUnknown
from ...reading.source import LiveSource, Source, chosen
from ..errors import ToolError
from ..show import opened
from .archived import opened_archive

__all__ = ["LiveSource", "Source", "chosen", "opened_source"]


@asynccontextmanager
async def opened_source(args: argparse.Namespace) -> AsyncIterator[Source]:
    """What ``--file``, ``--archive`` or else ``--redis-url`` names, closed at the end. Raises: ToolError."""
    if args.file is not None:
        from ...reading.dxlog import FileSource

        with FileSource(args.file) as source:
            yield source
        return
    if getattr(args, "archive", None) is not None:
        async with opened_archive(args) as archive:
            yield archive
        return
    async with opened(args.redis_url) as log:
        try:
            yield LiveSource(log, args.redis_url)
        except SessionUnknown as error:
            raise ToolError(f"the session is gone from the store: {error}") from error
        except LogUnavailable as error:
            raise ToolError(f"the store at {args.redis_url} does not answer: {error}") from error
