"""``duplex-es log erase``: what was said, out of the store, the archive and the exports; a tombstone stays."""

from __future__ import annotations

import argparse
import getpass
import sys
from contextlib import AsyncExitStack
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from ...archive.erasing import Done, Eraser, Target, Wish
from ...archive.redaction import Scope
from ...log.api import SessionLog
from ...log.errors import LogError
from ...log.redis import RedisLog
from ...log.rewriting import rewrite_files
from ...reading.words import json_text
from ..console import Console
from ..errors import ToolError
from ..show import opened
from .archived import opened_archiver


async def run(args: argparse.Namespace) -> int:
    """The exit code of ``duplex-es log erase``: 0 also when nothing was there any more."""
    wish = Wish(scope_of(args), by=args.by or getpass.getuser(), reason=args.reason)
    if (args.session is None) == (args.caller is None):
        raise ToolError("say what to erase: one SESSION, or --caller and who called")
    async with AsyncExitStack() as stack:
        log: SessionLog | None = None
        if not args.archive_only:
            log = await stack.enter_async_context(opened(args.redis_url))
        archiver = await stack.enter_async_context(opened_archiver(args, log)) if args.archive else None
        if log is None and archiver is None:
            raise ToolError("--archive-only needs --archive")
        eraser = Eraser(log, archiver, closes=args.close)
        try:
            targets = [Target.parse(args.session)] if args.caller is None else await eraser.of_caller(args.caller)
            planned = [one for target in targets for one in await eraser.erase(target, wish, dry_run=True)]
            if args.dry_run or not planned:
                return _told(planned, args, done=False)
            if not args.yes and not _confirmed(planned, wish):
                raise ToolError("nothing was erased: --yes confirms it without being asked")
            done = [one for target in targets for one in await eraser.erase(target, wish)]
            code = _told(done, args, done=True)
            if args.rewrite_files and isinstance(log, RedisLog):
                for line in await rewrite_files(log):
                    print(f"duplex-es: {line}", file=sys.stderr)
        except LogError as error:
            raise ToolError(str(error)) from error
    return code


def scope_of(args: argparse.Namespace) -> Scope | None:
    """What of a session is to go; ``None`` for all of it. Raises: ToolError for what does not go together."""
    if args.audio is not None and (args.since is not None or args.until is not None):
        raise ToolError("--audio takes a speaker's sound of the whole session; --since and --until a span of it")
    if args.audio is not None:
        return Scope(speaker=args.audio)
    if args.since is None and args.until is None:
        return None
    if args.since is None or args.until is None:
        raise ToolError("a span needs both --since and --until")
    span = Scope(from_ms=unix_ms(args.since), to_ms=unix_ms(args.until))
    if span.from_ms is None or span.to_ms is None or span.from_ms > span.to_ms:
        raise ToolError("--until comes before --since")
    return span


def unix_ms(text: str) -> int:
    """A time: unix seconds, or ISO 8601, which is UTC unless it says otherwise. Raises: ToolError."""
    try:
        return round(float(text) * 1000)
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError as error:
        raise ToolError(f"{text!r} is no time: unix seconds, or 2026-11-30T08:15:00Z") from error
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def _told(found: list[Done], args: argparse.Namespace, *, done: bool) -> int:
    console = Console()
    if args.json:
        console.line(json_text({"erased": done, "what": [asdict(one) for one in found]}))
    elif not found:
        console.line("nothing of it is there")
    else:
        console.line("erased" if done else "would be erased")
        console.table([(one.session, _short(one.where), one.what) for one in found], width=160)
    return 0


def _short(where: str) -> str:
    """A path as seen from here, if it lies below."""
    path = Path(where)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else where


def _confirmed(planned: list[Done], wish: Wish) -> bool:
    if not sys.stdin.isatty():
        return False
    for one in planned:
        print(f"  {one.session}  {one.where}  {one.what}", file=sys.stderr)
    subject = "all of this" if wish.scope is None else "this part of it"
    return input(f"erase {subject} for good? [yes/no] ").strip().lower() == "yes"
