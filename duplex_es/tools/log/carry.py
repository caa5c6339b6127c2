"""``duplex-es log export`` and ``log import``: a session into one file, and back."""

from __future__ import annotations

import argparse
import os
import socket
import time
from pathlib import Path

from ...log.api import Head
from ...log.errors import LogError, SessionExists
from ...log.restoring import restore
from ...reading.dxlog import FileSource, Manifest, Writer
from ...reading.notes import Exported, tombstones_of
from ...reading.source import Source
from ..console import Console
from ..errors import ToolError
from ..show import opened
from .source import opened_source


async def run_export(args: argparse.Namespace) -> int:
    """Write the session to ``args.out``, never over a file that is there."""
    async with opened_source(args) as source:
        head = await source.find(args.session)
        said, shown = await export(source, head, args.out)
    name = f"{head.ref.session_id}#{head.ref.incarnation}"
    Console().line(f"{name}: {said} input and {shown} output records in {args.out}")
    return 0


async def export(source: Source, head: Head, out: Path) -> tuple[int, int]:
    """Write the session to a file that is not there yet: how many records of each stream. Raises: ToolError."""
    if out.exists():
        raise ToolError(f"{out} is there already")
    part = out.with_name(f"{out.name}.part")
    said = shown = 0
    known = tombstones_of(await source.notes_on(head.ref.session_id), head.ref)
    # Noted first: a copy that nobody knows of could not be erased.
    await _note_copy(source, head, out)
    try:
        with part.open("wb") as file:
            writer = Writer(file, Manifest.now(head, known))
            writer.snapshots(await source.snapshots(head))
            async for entry in source.input(head, audio=True):
                writer.add("input", entry)
                said += 1
            async for entry in source.output(head, audio=True):
                writer.add("output", entry)
                shown += 1
            writer.finish()
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, out)
    except OSError as error:
        raise ToolError(f"cannot write {out}: {error.strerror}") from error
    finally:
        part.unlink(missing_ok=True)
    return said, shown


async def _note_copy(source: Source, head: Head, path: Path) -> None:
    """Let the store or the archive know where a copy is, so that ``log erase`` reaches it."""
    note = Exported(
        session_id=head.ref.session_id,
        incarnation=head.ref.incarnation,
        host=socket.gethostname(),
        path=str(path.absolute()),
        at_ms=time.time_ns() // 1_000_000,
    )
    await source.note(note)


async def run_import(args: argparse.Namespace) -> int:
    """Check the file whole; with ``args.into``, put its session there."""
    console = Console()
    with FileSource(args.path) as source:
        head = source.head
        if (broken := source.broken_chain()) is not None:
            raise ToolError(f"{args.path}: {broken}")
        name = f"{head.ref.session_id}#{head.ref.incarnation}"
        if args.into is None:
            console.line(f"{name}: whole and unchanged; every command reads it with --file {args.path}")
            return 0
        async with opened(args.into) as log:
            entries = (source.input(head), source.output(head))
            try:
                await restore(log, head, *entries, await source.snapshots(head))
            except SessionExists as error:
                raise ToolError(f"{args.into} has a session {head.ref.session_id!r} already") from error
            except LogError as error:
                raise ToolError(f"{args.into}: {error}") from error
    console.line(f"{name}: put back as a closed session, to be read only")
    return 0
