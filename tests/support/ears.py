"""Collects what is told by a callback, and waits for what a test is waiting for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")


class Ear(Generic[T]):
    """Call it with what is told; ``heard`` is all of it, in order."""

    def __init__(self, patience_s: float) -> None:
        self.heard: list[T] = []
        self._patience_s = patience_s
        self._news = asyncio.Event()

    def __call__(self, told: T) -> None:
        self.heard.append(told)
        self._news.set()

    async def until(self, holds: Callable[[Sequence[T]], bool]) -> list[T]:
        """All that was heard, once ``holds`` is true of it. Raises: TimeoutError."""
        async with asyncio.timeout(self._patience_s):
            while not holds(self.heard):
                self._news.clear()
                await self._news.wait()
        return self.heard
