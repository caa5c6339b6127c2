"""The archive that a command line names, and its keys."""

from __future__ import annotations

import argparse
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ...log.api import SessionLog
from ...observability.recording import UNMEASURED, Metrics
from ...reading.source import Source
from ..errors import ToolError
from ..show import opened

if TYPE_CHECKING:
    from ...archive.keystore import KeyStore
    from ...archive.sealing import OperatorKeys
    from ...archive.writing import Archiver

STORE = "redis"
KEY_VARIABLE = "DUPLEX_ES_ARCHIVE_KEY"


def add_archive(leaf: argparse._ActionsContainer) -> None:
    """``--archive``."""
    text = "an archive instead of a store: a folder, s3://…, gs://…; with its --keys and --key-file"
    leaf.add_argument("--archive", default=None, metavar="URL", help=text)


def add_keys(leaf: argparse._ActionsContainer) -> None:
    """``--keys`` and ``--key-file``."""
    leaf.add_argument(
        "--keys",
        default=os.environ.get("DUPLEX_ES_ARCHIVE_KEYS"),
        metavar="URL",
        help="where the sessions' keys are: a folder or bucket, or `redis` (DUPLEX_ES_ARCHIVE_KEYS)",
    )
    leaf.add_argument(
        "--key-file",
        type=Path,
        default=os.environ.get("DUPLEX_ES_ARCHIVE_KEY_FILE"),
        metavar="FILE",
        help=f"the operator's key (DUPLEX_ES_ARCHIVE_KEY_FILE, or itself in {KEY_VARIABLE})",
    )


def archive_url(args: argparse.Namespace) -> str:
    """Where the archive is. Raises: ToolError when nobody says."""
    if not args.archive:
        raise ToolError("which archive? --to or --archive, or DUPLEX_ES_ARCHIVE, names a folder, s3://… or gs://…")
    return str(args.archive)


def operator_keys(args: argparse.Namespace) -> OperatorKeys:
    """The operator's keys, from the file or the environment. Raises: ToolError."""
    from ...archive.sealing import OperatorKeys

    if args.key_file is None:
        text = os.environ.get(KEY_VARIABLE, "")
        if not text:
            raise ToolError(f"an archive needs the operator's key: --key-file, or {KEY_VARIABLE}")
        return OperatorKeys.parse(text)
    return OperatorKeys.of_file(args.key_file)


@asynccontextmanager
async def opened_keys(args: argparse.Namespace, log: SessionLog | None = None) -> AsyncIterator[KeyStore]:
    """The sessions' keys. Raises: ToolError."""
    from ...archive.keystore import key_store

    if not args.keys:
        raise ToolError("an archive needs its keys: --keys with a folder or bucket of their own, or `redis`")
    operator = operator_keys(args)
    async with AsyncExitStack() as stack:
        if args.keys == STORE and log is None:
            log = await stack.enter_async_context(opened(args.redis_url))
        yield key_store(args.keys, operator, log)


@asynccontextmanager
async def opened_archiver(
    args: argparse.Namespace,
    log: SessionLog | None = None,
    *,
    clear_text: bool = False,
    metrics: Metrics = UNMEASURED,
) -> AsyncIterator[Archiver]:
    """Who writes the archive that ``args.archive`` names. Raises: ToolError."""
    from ...archive.files import Files
    from ...archive.writing import Archiver

    async with opened_keys(args, log) as keys:
        yield Archiver(Files(archive_url(args)), keys, clear_text=clear_text, metrics=metrics)


@asynccontextmanager
async def opened_archive(args: argparse.Namespace) -> AsyncIterator[Source]:
    """The archive that ``args.archive`` names, to be read. Raises: ToolError."""
    from ...archive.files import Files
    from ...archive.source import ArchiveSource

    async with opened_keys(args) as keys:
        yield ArchiveSource(Files(archive_url(args)), keys)
