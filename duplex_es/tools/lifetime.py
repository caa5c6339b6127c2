"""Running one command to its end, or to Ctrl-C."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any

INTERRUPTED = 130
"""The exit code of a command that was told to stop, as a shell would report it."""


def run_interruptible(command: Coroutine[Any, Any, int]) -> int:
    """The exit code of ``command``. The first SIGINT or SIGTERM cancels it, so that it cleans up; later ones wait."""
    return asyncio.run(_supervise(command))


async def _supervise(command: Coroutine[Any, Any, int]) -> int:
    task = asyncio.create_task(command)
    loop = asyncio.get_running_loop()
    asked: list[int] = []

    def stop(number: int) -> None:
        # Once only: a second cancel would cut the clean-up short and leave processes behind.
        if not asked:
            task.cancel()
        asked.append(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop, number)
    try:
        return await task
    except asyncio.CancelledError:
        if not asked:
            raise
        return INTERRUPTED
