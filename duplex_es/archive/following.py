"""The archive's process: closed sessions go into the archive as they come, then the store may let them go earlier."""

from __future__ import annotations

import asyncio
import logging
import random
from dataclasses import dataclass

from ..log.api import EntryId, Life, SessionLog
from ..log.errors import LogError, LogUnavailable, SessionUnknown
from ..log.keeping import keeping_of
from ..reading.errors import ReadingError
from ..reading.source import LiveSource
from .keystore import KeyDestroyed
from .layout import OPEN, LifeName, Manifest
from .reporting import ERASED, GONE, PLACE_FAILS, STORE_FAILS, Met, Reporter
from .writing import Archiver

logger = logging.getLogger(__name__)

LONGEST_PAUSE_S = 30.0


@dataclass
class Figures:
    """What one pass came to."""

    archived: int = 0
    open: int = 0
    known: int = 0
    failed: int = 0


class Following:
    """Archives the sessions of ``log`` again and again. Any number of processes may follow the same store.

    Closed sessions stay readable in the store for ``keep_s`` once they are archived; ``None`` leaves them alone. With
    ``follows_open`` those that go on are archived as far as they have come, so that what is trimmed from them is kept.
    """

    def __init__(
        self,
        log: SessionLog,
        archiver: Archiver,
        *,
        keep_s: float | None = 60.0,
        follows_open: bool = False,
        reporter: Reporter | None = None,
    ) -> None:
        self._log, self._archiver, self._keep_s, self._follows_open = log, archiver, keep_s, follows_open
        self._reporter = reporter or Reporter()
        self._keeping = keeping_of(log)
        self._source = LiveSource(log, "the store")
        self._known: set[LifeName] = set()

    async def run(self, every_s: float) -> None:
        """Pass after pass until cancelled; a place that does not answer is asked again, less and less often."""
        pause_s = every_s
        while True:
            try:
                figures = await self.sweep()
                pause_s = every_s if not figures.failed else min(2 * pause_s, max(every_s, LONGEST_PAUSE_S))
            except (LogUnavailable, ReadingError) as error:
                logger.warning("archiving pauses: %s", error)
                self._reporter.failed(_kind(error), str(error))
                pause_s = min(2 * pause_s, max(every_s, LONGEST_PAUSE_S))
            await asyncio.sleep(pause_s)

    async def sweep(self) -> Figures:
        """One pass over the store. A session that cannot be archived now does not keep the others from it."""
        figures = Figures()
        lives = [life for life in await self._keeping.lives(closed=not self._follows_open) if is_ours(life)]
        self._known &= {LifeName.of(life) for life in lives}
        left = [life for life in lives if LifeName.of(life) not in self._known]
        figures.known = len(lives) - len(left)
        found = {LifeName.of(life): Met(life.head.output.number, life.head.state == "closed") for life in left}
        self._reporter.begins(found, figures.known)
        # Several processes meet less often when each begins elsewhere.
        random.shuffle(left)
        for life in left:
            try:
                await self._take(life, figures)
            except (LogError, ReadingError) as error:
                figures.failed += 1
                kind = _kind(error)
                self._reporter.failed(kind, str(error))
                if kind in (ERASED, GONE):
                    logger.info("session=%s is archived again: %s", life.head.ref.session_id, error)
                else:
                    logger.warning("session=%s is not archived yet: %s", life.head.ref.session_id, error)
        self._reporter.ends(figures.failed)
        return figures

    async def _take(self, life: Life, figures: Figures) -> None:
        manifest = await self._archiver.archive(life, self._source)
        seq, whole = EntryId.parse(manifest.output).number, manifest.state == "closed"
        self._reporter.done(LifeName.of(life), seq, whole=whole)
        if manifest.state == OPEN:
            figures.open += 1
            return
        if whole:
            figures.archived += 1
            self._log_done(life, manifest)
            await self._release(life)
        self._known.add(LifeName.of(life))

    async def _release(self, life: Life) -> None:
        if self._keep_s is not None:
            try:
                await self._keeping.shorten(life.head.ref, self._keep_s)
            except SessionUnknown:
                return  # It has expired meanwhile.

    def _log_done(self, life: Life, manifest: Manifest) -> None:
        sizes = [note.sealed_bytes for note in manifest.segments]
        text = "session=%s incarnation=%d archived, segments=%d bytes=%d"
        logger.info(text, life.head.ref.session_id, life.head.ref.incarnation, len(sizes), sum(sizes))


def is_ours(life: Life) -> bool:
    """Whether it is a session of this store: one that was put back to be read, from a file or an archive, is not."""
    return life.created_ms != 0


def _kind(error: LogError | ReadingError) -> str:
    if isinstance(error, KeyDestroyed):
        return ERASED
    if isinstance(error, SessionUnknown):
        return GONE
    return STORE_FAILS if isinstance(error, LogError) else PLACE_FAILS
