"""The newest sessions of an archive, for a list that is looked at again and again.

A manifest is read once, and again when it was replaced. What is shown may be ``FRESH_S`` old, and older where the place
is slow: a session that has just been closed is in its store for longer than that.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from ..log.api import Head
from ..reading.errors import ReadingError
from .contents import read_manifest
from .files import Files
from .layout import MANIFESTS, OPEN, Manifest, ManifestUnreadable

MOST = 5_000
FRESH_S = 30.0
AGAIN_S = 5.0
"""So long after a look that failed comes the next one."""
PATIENCE_S = 2.0
READERS = 8
"""An object store answers several questions at the same time, each of them slowly."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Listed:
    """A session as a list shows it; ``ended_ms`` is ``None`` where an older build archived it."""

    head: Head
    created_ms: int
    ended_ms: int | None


class Listing:
    """The newest ``most`` lives of the archive at ``files``; erased ones are left out, and what is damaged.

    Nobody waits for longer than ``patience_s``; a look that takes longer goes on.
    """

    def __init__(
        self,
        files: Files,
        *,
        most: int = MOST,
        fresh_s: float = FRESH_S,
        patience_s: float = PATIENCE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._files, self._most, self._fresh_s, self._clock = files, most, fresh_s, clock
        self._patience_s = patience_s
        self._read: dict[str, tuple[str, Listed | None]] = {}
        self._newest: list[Listed] | None = None
        self._trouble = ""
        self._looking: asyncio.Task[None] | None = None
        self._due_s = clock()

    async def newest(self) -> list[Listed]:
        """Them, newest first; the same list until there is a newer one. Raises: ReadingError when the place does not
        answer, or has not yet been read once."""
        if self._looking is None and self._clock() >= self._due_s:
            self._looking = asyncio.create_task(self._look_again())
        if self._looking is not None:
            await asyncio.wait({self._looking}, timeout=self._patience_s)
        if self._trouble:
            raise ReadingError(self._trouble)
        if self._newest is None:
            raise ReadingError(f"{self._files.url} is still being read: ask again in a while")
        return self._newest

    async def _look_again(self) -> None:
        try:
            self._newest, self._trouble = await asyncio.to_thread(self._look), ""
            self._due_s = self._clock() + self._fresh_s
        except ReadingError as error:
            self._trouble = str(error)
            self._due_s = self._clock() + AGAIN_S
        finally:
            self._looking = None

    def _look(self) -> list[Listed]:
        stamps = {life_in(path): (path, stamp) for path, stamp in self._files.stamps(OPEN).items()}
        # What is whole stands in the place of what went on.
        stamps |= {life_in(path): (path, stamp) for path, stamp in self._files.stamps(MANIFESTS).items()}
        newest = sorted(stamps.values(), key=lambda one: (-created_in(one[0]), one[0]))[: self._most]
        new = [(path, stamp) for path, stamp in newest if self._read.get(path, ("", None))[0] != stamp]
        with ThreadPoolExecutor(READERS) as readers:
            found = readers.map(lambda one: self._at(one[0]), new)
            read = {path: (stamp, listed) for (path, stamp), listed in zip(new, found, strict=True)}
        self._read = {path: read.get(path) or self._read[path] for path, _ in newest}
        return [listed for _, listed in self._read.values() if listed is not None]

    def _at(self, path: str) -> Listed | None:
        try:
            return _listed(read_manifest(self._files, path))
        except (ManifestUnreadable, ValueError) as error:  # One of them takes nothing from the others.
            _log.warning("an archived session is not listed: %s: %s", path, error)
            return None


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
    return int(made) if made.isdecimal() else 0
