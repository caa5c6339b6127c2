"""``duplex-es log report``: the timeline of a call as one page that needs no service and no network."""

from __future__ import annotations

import argparse
import os
from importlib.resources import files

from ...timeline.report import report
from ..console import Console
from ..errors import ToolError
from .source import opened_source


async def run(args: argparse.Namespace) -> int:
    """Write ``args.html``, never over a file that is there."""
    if args.html.exists():
        raise ToolError(f"{args.html} is there already")
    async with opened_source(args) as source:
        head = await source.find(args.session)
        page = await report(source, head, asset, with_audio=args.audio)
    part = args.html.with_name(f"{args.html.name}.part")
    try:
        part.write_text(page, encoding="utf-8")
        os.replace(part, args.html)
    except OSError as error:
        raise ToolError(f"cannot write {args.html}: {error.strerror}") from error
    finally:
        part.unlink(missing_ok=True)
    sound = "with sound" if args.audio else "without sound"
    Console().line(f"{args.html}: the timeline of {head.ref.session_id}#{head.ref.incarnation}, {sound}")
    return 0


def asset(name: str) -> str:
    """A file of the web pages, which come with the gateway. Raises: ToolError where that is not installed."""
    try:
        return files("gateway").joinpath("web", *name.split("/")).read_text(encoding="utf-8")
    except (ModuleNotFoundError, FileNotFoundError) as error:
        raise ToolError(f"the web pages are not installed: {error}") from error
