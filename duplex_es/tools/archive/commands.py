"""``duplex-es archive``: keep sessions for longer than the store does."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ...log.api import Life
from ...log.errors import LogError, LogUnavailable
from ...observability.admin import AdminServer
from ...observability.log_figures import LogFigures
from ...observability.outlets import NOWHERE, OutletMissing, Outlets, open_outlets
from ...reading.dxlog import FileSource
from ...reading.errors import ReadingError
from ...reading.sessions import begun_ms
from ..console import Console
from ..errors import ToolError
from ..log.archived import add_keys, archive_url, opened_archiver, opened_keys
from ..show import opened

if TYPE_CHECKING:
    from ...archive.following import Following
    from ...archive.reporting import Reporter

Commands = argparse._SubParsersAction
Leaf = Callable[["Commands[argparse.ArgumentParser]", str, str], argparse.ArgumentParser]


def add_archive_commands(commands: Commands[argparse.ArgumentParser], make_leaf: Leaf) -> None:
    """``duplex-es archive …``."""
    text = "keep sessions for longer than the store does"
    group = commands.add_parser("archive", help=text, description=text)
    leaves = group.add_subparsers(metavar="COMMAND", required=True)
    _add_run(leaves, make_leaf)
    leaf = make_leaf(leaves, "add", "put an exported session into the archive")
    leaf.set_defaults(run=run_add)
    leaf.add_argument("path", type=Path, metavar="FILE.dxlog", help="the file")
    _add_where(leaf, "--to")
    leaf = make_leaf(leaves, "key", "make a new operator's key; put in front of the keys of a file that is there")
    leaf.set_defaults(run=run_key)
    leaf.add_argument("path", type=Path, metavar="FILE", help="where to write it, readable by its owner only")
    leaf = make_leaf(leaves, "index", "the index of an archive in one Parquet file, its words in the clear")
    leaf.set_defaults(run=run_index)
    leaf.add_argument("session", nargs="?", default=None, metavar="SESSION", help="of one session's id only")
    leaf.add_argument("-o", "--out", type=Path, required=True, metavar="FILE.parquet", help="where to write it")
    _add_where(leaf, "--archive")


def _add_run(leaves: Commands[argparse.ArgumentParser], make_leaf: Leaf) -> None:
    leaf = make_leaf(leaves, "run", "put closed sessions into the archive as they come, until Ctrl-C")
    leaf.set_defaults(run=run, interrupted=0)
    leaf.add_argument("--once", action="store_true", help="one pass, then end: 1 when something could not be archived")
    leaf.add_argument("--open", action="store_true", help="also sessions that go on, as far as they have come")
    leaf.add_argument("--every-s", type=float, default=2.0, help="the pause between two passes")
    leaf.add_argument("--keep-s", type=float, default=60.0, help="how long the store keeps what is archived")
    leaf.add_argument("--keep-all", action="store_true", help="leave the store's own retention as it is")
    leaf.add_argument("--clear-text", action="store_true", help="write words into the index that no key is needed for")
    _add_where(leaf, "--to")
    leaf.add_argument(
        "--health-host",
        default=os.environ.get("DUPLEX_ES_HEALTH_HOST", "127.0.0.1"),
        help="where operators reach /metrics, /healthz, /readyz and /startupz (DUPLEX_ES_HEALTH_HOST)",
    )
    leaf.add_argument(
        "--health-port",
        type=int,
        default=os.environ.get("DUPLEX_ES_HEALTH_PORT", "0"),
        help="their port; 0 turns it, and all measuring, off (DUPLEX_ES_HEALTH_PORT)",
    )


def _add_where(leaf: argparse.ArgumentParser, name: str) -> None:
    leaf.add_argument(
        name,
        dest="archive",
        default=os.environ.get("DUPLEX_ES_ARCHIVE"),
        metavar="URL",
        help="the archive: a folder, s3://…, gs://… (DUPLEX_ES_ARCHIVE)",
    )
    add_keys(leaf)
    url = os.environ.get("DUPLEX_ES_REDIS_URL", "redis://127.0.0.1:6379/0")
    leaf.add_argument("--redis-url", default=url, help="the store (DUPLEX_ES_REDIS_URL)")


async def run(args: argparse.Namespace) -> int:
    """Follow the store."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    if not args.once:
        return await _run_on(args)
    async with _following(args, NOWHERE) as (following, _):
        try:
            figures = await following.sweep()
        except LogUnavailable as error:
            raise ToolError(f"the store at {args.redis_url} does not answer: {error}") from error
        except LogError as error:
            raise ToolError(str(error)) from error
    Console().line(f"{figures.archived} archived, {figures.open} still going on, {figures.failed} failed")
    return 1 if figures.failed else 0


async def _run_on(args: argparse.Namespace) -> int:
    """Pass after pass, watched where a port is given, until the command is cancelled."""
    if not 0 <= args.health_port <= 65_535:
        raise ToolError(f"--health-port must be from 0 to 65535, not {args.health_port}")
    try:
        outlets = open_outlets("archive", socket.gethostname(), measured=bool(args.health_port), otlp_endpoint="")
    except OutletMissing as error:
        raise ToolError(str(error)) from error
    async with _following(args, outlets) as (following, reporter), _watched(args, reporter):
        await following.run(args.every_s)
    return 0


@asynccontextmanager
async def _watched(args: argparse.Namespace, reporter: Reporter) -> AsyncIterator[None]:
    """The operators' port, where one is given. Raises: ToolError when it cannot be listened on."""
    if not args.health_port:
        yield
        return
    server = AdminServer(reporter.pages)
    try:
        await server.start(args.health_host, args.health_port)
    except OSError as error:
        raise ToolError(f"--health-port {args.health_port} of {args.health_host}: {error.strerror}") from error
    try:
        yield
    finally:
        await server.stop()


@asynccontextmanager
async def _following(args: argparse.Namespace, outlets: Outlets) -> AsyncIterator[tuple[Following, Reporter]]:
    """Who archives, and who says how that goes. Raises: ToolError."""
    from ...archive.following import Following
    from ...archive.reporting import Reporter

    metrics = outlets.metrics
    keep_s = None if args.keep_all else args.keep_s
    async with (
        opened(args.redis_url, LogFigures(metrics)) as log,
        opened_archiver(args, log, clear_text=args.clear_text, metrics=metrics) as archiver,
    ):
        reporter = Reporter(metrics)
        yield Following(log, archiver, keep_s=keep_s, follows_open=args.open, reporter=reporter), reporter


async def run_add(args: argparse.Namespace) -> int:
    """Archive a file's session."""
    with FileSource(args.path) as source:
        if (broken := source.broken_chain()) is not None:
            raise ToolError(f"{args.path}: {broken}")
        life = Life(source.head, await begun_ms(source, source.head) or source.manifest.exported_ms)
        async with opened_archiver(args) as archiver:
            manifest = await archiver.archive(life, source)
    name = f"{manifest.session_id}#{manifest.incarnation}"
    if manifest.state == "erased":
        raise ToolError(f"{name} was {manifest.tombstones[-1].line()}")
    records = sum(note.count for note in manifest.segments)
    Console().line(f"{name}: {records} records in {len(manifest.segments)} segments in the archive")
    return 0


async def run_key(args: argparse.Namespace) -> int:
    """Make a key."""
    from ...archive.sealing import OperatorKeys, new_key

    path: Path = args.path
    part = path.with_name(f"{path.name}.part")
    try:
        before = path.read_text() if path.exists() else ""
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(f"{OperatorKeys.text(new_key())}\n{before}")
        part.replace(path)
    except OSError as error:
        raise ToolError(f"cannot write {path}: {error.strerror}") from error
    older = len(before.split())
    Console().line(f"a new key is in {path}" + (f", in front of {older}" if older else ""))
    return 0


async def run_index(args: argparse.Namespace) -> int:
    """Write the index with its words."""
    from ...archive.files import Files
    from ...archive.index import parquet_bytes, read_index

    if args.out.exists():
        raise ToolError(f"{args.out} is there already")
    async with opened_keys(args) as keys:
        table = await read_index(Files(archive_url(args)), keys, args.session)
    try:
        await asyncio.to_thread(args.out.write_bytes, parquet_bytes(table))
    except OSError as error:
        raise ReadingError(f"cannot write {args.out}: {error.strerror}") from error
    Console().line(f"{table.num_rows} rows in {args.out}")
    return 0
