"""``duplex-es up``: the whole service on this machine, until Ctrl-C."""

from __future__ import annotations

import argparse

from .console import Console
from .stack import Stack, StackPlan


async def run(args: argparse.Namespace) -> int:
    """The exit code of ``duplex-es up``: 1 when it broke by itself."""
    console = Console()
    plan = StackPlan(
        gateways=args.gateways,
        workers=args.workers,
        model=args.model,
        host=args.host,
        port=args.port,
        redis_url=args.redis_url,
        slots=args.slots,
        log_level=args.log_level,
        worker_options=(*(("--chat-url", args.chat_url) if args.chat_url else ()), *args.worker_option),
    )
    async with Stack(plan, console.named) as stack:
        console.named("up", f"ready: connect to {' or '.join(stack.urls)} (log in {stack.redis_url}); Ctrl-C ends it")
        reason = await stack.wait_until_broken()
        console.named("up", f"{reason}: nothing is left to serve with")
    return 1
