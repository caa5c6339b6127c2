"""``duplex-es log export`` and ``log import``: a session into one file, and back."""

from __future__ import annotations

import argparse
import os
import time

from ... import __version__
from ...log.errors import LogError, SessionExists
from ...log.restoring import restore
from ...protocol.records import SCHEMA_VERSION
from ..console import Console
from ..errors import ToolError
from ..show import opened
from .dxlog import FORMAT, FileSource, HeadRecord, Manifest, Writer
from .source import opened_source


async def run_export(args: argparse.Namespace) -> int:
    """Write the session to ``args.out``, never over a file that is there."""
    part = args.out.with_name(f"{args.out.name}.part")
    if args.out.exists():
        raise ToolError(f"{args.out} is there already")
    counts = {"input": 0, "output": 0}
    async with opened_source(args) as source:
        head = await source.find(args.session)
        manifest = Manifest(
            format=FORMAT,
            schema_version=SCHEMA_VERSION,
            made_by=f"duplex-es {__version__}",
            exported_ms=time.time_ns() // 1_000_000,
            head=HeadRecord.of(head),
        )
        try:
            with part.open("wb") as file:
                writer = Writer(file, manifest)
                writer.snapshots(await source.snapshots(head))
                async for entry in source.input(head, audio=True):
                    writer.add("input", entry)
                    counts["input"] += 1
                async for entry in source.output(head, audio=True):
                    writer.add("output", entry)
                    counts["output"] += 1
                writer.finish()
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, args.out)
        except OSError as error:
            raise ToolError(f"cannot write {args.out}: {error.strerror}") from error
        finally:
            part.unlink(missing_ok=True)
    name = f"{head.ref.session_id}#{head.ref.incarnation}"
    Console().line(f"{name}: {counts['input']} input and {counts['output']} output records in {args.out}")
    return 0


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
