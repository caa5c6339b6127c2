"""How archiving goes, for those who watch it: how far it is behind, what fails, what its probes answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from ..observability import catalogue
from ..observability.admin import Answer, Page, exposed, reported, started
from ..observability.readiness import Readiness
from ..observability.recording import UNMEASURED, Metrics
from .layout import LifeName

COMPONENT = "archive"
LOG, PLACE = "log", "archive"
"""The checks of its readiness: the store can be listed, and the archive's place takes what is written."""
STORE_FAILS, PLACE_FAILS, ERASED, GONE = "store", "archive", "erased", "gone"
KINDS = (STORE_FAILS, PLACE_FAILS, ERASED, GONE)
"""Why a life was not archived in a pass; ``erased`` and ``gone`` are no faults, it is looked at again."""


class Met(NamedTuple):
    """Where the store has a life: up to which seq, and whether it is closed."""

    seq: int
    is_closed: bool


class Reporter:
    """The figures and the probes of one archiving process.

    ``begins`` names all that a pass finds to do, ``done`` and ``failed`` say what became of it, ``ends`` closes it.
    What is left to do is behind, from the moment this process met it first.
    """

    def __init__(self, metrics: Metrics = UNMEASURED, clock: Callable[[], float] = time.time) -> None:
        self.readiness = Readiness(LOG, PLACE, clock=clock)
        self._metrics, self._clock = metrics, clock
        self._behind: dict[LifeName, int] = {}
        self._met_s: dict[LifeName, float] = {}
        self._archived_to: dict[LifeName, int] = {}
        self._log_answers = False
        for kind in KINDS:
            metrics.count(catalogue.ARCHIVE_FAILURES, kind, by=0)
        metrics.at_scrape(self._gather)

    # -- what a pass says ------------------------------------------------------------------------------------------

    def begins(self, found: Mapping[LifeName, Met], known: int) -> None:
        """The store was listed: lives that may have more than the archive, and how many are archived whole already."""
        self._log_answers = True
        self.readiness.passes(LOG)
        left = {name: max(0, met.seq - self._archived_to.get(name, 0)) for name, met in found.items()}
        # One that is closed is to be archived whole, also where no record came since.
        self._behind = {name: records for name, records in left.items() if records or found[name].is_closed}
        self._met_s = {name: self._met_s.get(name, self._clock()) for name in self._behind}
        self._archived_to = {name: seq for name, seq in self._archived_to.items() if name in found}
        self._metrics.set(catalogue.ARCHIVE_SESSIONS, len(found), "following")
        self._metrics.set(catalogue.ARCHIVE_SESSIONS, known, "archived")

    def done(self, name: LifeName, seq: int, *, whole: bool) -> None:
        """A life is in the archive up to ``seq``; ``whole`` when it is closed and all of it is there."""
        self._archived_to[name] = seq
        self._behind.pop(name, None)
        self._met_s.pop(name, None)
        if whole:
            self._metrics.count(catalogue.ARCHIVED)

    def failed(self, kind: str, reason: str) -> None:
        """A life could not be archived now; or the pass could not be made."""
        self._metrics.count(catalogue.ARCHIVE_FAILURES, kind)
        if kind == STORE_FAILS:
            self._log_answers = False
            self.readiness.fails(LOG, reason)
        elif kind == PLACE_FAILS:
            self.readiness.fails(PLACE, reason)

    def ends(self, failed: int) -> None:
        """A pass is over, in which ``failed`` lives could not be archived."""
        if not failed:
            self.readiness.passes(PLACE)
            self._metrics.set(catalogue.ARCHIVE_SUCCESS, self._clock())

    # -- who asks --------------------------------------------------------------------------------------------------

    @property
    def behind_records(self) -> int:
        """Output records that the store was seen to have and the archive has not."""
        return sum(self._behind.values())

    @property
    def behind_s(self) -> float:
        """How long the oldest of them has been known to this process; 0 when there is none."""
        return max(0.0, self._clock() - min(self._met_s.values())) if self._met_s else 0.0

    @property
    def pages(self) -> Mapping[str, Answer]:
        """What an ``AdminServer`` serves, by its path."""
        return {
            "/healthz": self._alive,
            "/readyz": self._ready,
            "/startupz": self._started,
            "/metrics": self._exposed,
        }

    def _gather(self) -> None:
        metrics = self._metrics
        metrics.set(catalogue.READY, self.readiness.ready, COMPONENT)
        metrics.set(catalogue.LOG_UP, self._log_answers)
        metrics.set(catalogue.ARCHIVE_BEHIND_RECORDS, self.behind_records)
        metrics.set(catalogue.ARCHIVE_BEHIND, self.behind_s)

    async def _alive(self) -> Page:
        return Page.of({"status": "alive", "behind_records": self.behind_records})

    async def _ready(self) -> Page:
        return reported(self.readiness)

    async def _started(self) -> Page:
        return started(self.readiness)

    async def _exposed(self) -> Page:
        return exposed(self._metrics)
