"""``duplex-es sessions``: every session the store knows, and where it stands."""

from __future__ import annotations

import argparse

from .console import Console
from .show import opened

TITLES = ("SESSION", "STATE", "MODEL", "SOCKET", "WORKER", "INPUT", "OUTPUT")


async def run(args: argparse.Namespace) -> int:
    """The exit code of ``duplex-es sessions``."""
    async with opened(args.redis_url) as log:
        heads = await log.sessions()
    rows = [
        (
            f"{head.ref.session_id}#{head.ref.incarnation}",
            head.state,
            head.model,
            f"{head.gateway}/{head.generation}" if head.attached else "-",
            f"{head.worker}/{head.fence}" if head.fence else "-",
            str(head.input),
            str(head.output),
        )
        for head in sorted(heads, key=lambda head: (head.ref.session_id, head.ref.incarnation))
    ]
    console = Console()
    console.table([TITLES, *rows] if rows else [("no sessions",)], width=200)
    return 0
