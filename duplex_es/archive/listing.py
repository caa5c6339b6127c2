"""The newest sessions of an archive, for a list that is looked at again and again.

A manifest is read once, and again when it was replaced. What is shown may be ``FRESH_S`` old: a session that has just
been closed is in its store for longer than that.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from ..log.api import Head
from .contents import read_manifest
from .files import Files
from .layout import MANIFESTS, OPEN, Manifest

MOST = 5_000
FRESH_S = 30.0
READERS = 8
"""An object store answers several questions at the same time, each of them slowly."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A session as a list shows it; ``ended_ms`` is ``None`` where an older build archived it."""

    head: Head
    created_ms: int
    ended_ms: int | None


class Listing:
    """The newest ``most`` lives of the archive at ``files``; erased ones are left out."""

    def __init__(
        self,
        files: Files,
        *,
        most: int = MOST,
        fresh_s: float = FRESH_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._files, self._most, self._fresh_s, self._clock = files, most, fresh_s, clock
        self._read: dict[str, tuple[str, Listed | None]] = {}
        self._newest: list[Listed] = []
        self._at_s: float | None = None
        self._lock = asyncio.Lock()

    async def newest(self) -> list[Listed]:
        """Them, newest first. Raises: ReadingError when the place does not answer."""
        async with self._lock:
            if self._at_s is None or self._clock() - self._at_s >= self._fresh_s:
                self._newest = await asyncio.to_thread(self._look)
                self._at_s = self._clock()
            return self._newest

    def _look(self) -> list[Listed]:
        stamps = {life_in(path): (path, stamp) for path, stamp in self._files.stamps(OPEN).items()}
        # What is whole stands in the place of what went on.
        stamps |= {life_in(path): (path, stamp) for path, stamp in self._files.stamps(MANIFESTS).items()}
        newest = sorted(stamps.values(), key=lambda one: (-created_in(one[0]), one[0]))[: self._most]
        new = [(path, stamp) for path, stamp in newest if self._read.get(path, ("", None))[0] != stamp]
        with ThreadPoolExecutor(READERS) as readers:
            found = readers.map(lambda one: read_manifest(self._files, one[0]), new)
            read = {path: (stamp, _listed(manifest)) for (path, stamp), manifest in zip(new, found, strict=True)}
        self._read = {path: read.get(path) or self._read[path] for path, _ in newest}
        return [listed for _, listed in self._read.values() if listed is not None]


def _listed(manifest: Manifest | None) -> Listed | None:
    if manifest is None or manifest.state == "erased":
        return None
    return Listed(manifest.head(), manifest.created_ms, manifest.ended_ms or None)


def life_in(path: str) -> str:
    """The name of the life whose manifest this is."""
    return path.rpartition("/")[2].removesuffix(".json")


def created_in(path: str) -> int:
    """When that life was made, as its name says; 0 for a file of another name."""
    made = life_in(path).rpartition("-")[2]
    return int(made) if made.isdigit() else 0
