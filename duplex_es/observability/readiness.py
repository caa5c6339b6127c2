"""Why a process may be sent work, or not: named checks, each with its reason and since when it stands so."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

STARTING = "starting"


@dataclass(frozen=True, slots=True)
class Check:
    """One condition: ``reason`` is empty while it holds. ``since_s`` is when that, or the reason, last changed."""

    reason: str
    since_s: float


class Readiness:
    """The checks of one process, in the order of ``names``; each fails as ``starting`` until it is told otherwise."""

    def __init__(self, *names: str, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._checks = {name: Check(STARTING, clock()) for name in names}
        self.started = False
        """Whether it was ready once: starting up is over."""

    def passes(self, name: str) -> None:
        """The check holds."""
        self._note(name, "")

    def fails(self, name: str, reason: str) -> None:
        """The check does not hold, because of ``reason``."""
        self._note(name, reason)

    def _note(self, name: str, reason: str) -> None:
        if self._checks[name].reason != reason:
            self._checks[name] = Check(reason, self._clock())
        self.started = self.started or self.ready

    @property
    def ready(self) -> bool:
        """Whether every check holds."""
        return not any(check.reason for check in self._checks.values())

    @property
    def reason(self) -> str:
        """Why it is not ready: the first check that fails; empty when it is."""
        return next((check.reason for check in self._checks.values() if check.reason), "")

    def report(self) -> dict[str, object]:
        """What ``/readyz`` says: ``ready``, the ``reason`` if it is not, and every check with ``ok`` and ``since``."""
        checks: dict[str, object] = {}
        for name, check in self._checks.items():
            told: dict[str, object] = {"ok": not check.reason, "since": utc(check.since_s)}
            checks[name] = told | ({"reason": check.reason} if check.reason else {})
        failing: dict[str, object] = {} if self.ready else {"reason": self.reason}
        return {"ready": self.ready, **failing, "checks": checks}


def utc(at_s: float) -> str:
    """``2031-02-03T04:05:06.007Z`` for a Unix time."""
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at_s))
    return f"{stamp}.{int(at_s * 1000) % 1000:03d}Z"
