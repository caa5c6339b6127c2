"""``duplex-es up``: the whole service on this machine, until Ctrl-C."""

from __future__ import annotations

import argparse

from duplex_es.client.transport import is_loopback

from .console import Console
from .stack import Stack, StackPlan, told_metrics


async def run(args: argparse.Namespace) -> int:
    """The exit code of ``duplex-es up``: 1 when it broke by itself."""
    console = Console()
    pages = is_loopback(f"ws://{args.host}") if args.pages is None else args.pages
    plan = StackPlan(
        gateways=args.gateways,
        workers=args.workers,
        model=args.model,
        host=args.host,
        port=args.port,
        metrics_port=args.metrics_port,
        redis_url=args.redis_url,
        slots=args.slots,
        log_level=args.log_level,
        worker_options=(*(("--chat-url", args.chat_url) if args.chat_url else ()), *args.worker_option),
        pages=pages,
    )
    async with Stack(plan, console.named) as stack:
        console.named("up", f"ready: connect to {' or '.join(stack.urls)} (log in {stack.redis_url}); Ctrl-C ends it")
        for url in stack.page_urls[:1]:
            console.named("up", f"talk to it in a browser: {url}")
        console.named("up", told_metrics(stack))
        reason = await stack.wait_until_broken()
        console.named("up", f"{reason}: nothing is left to serve with")
    return 1
