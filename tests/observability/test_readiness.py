"""Each check with its reason, and since when."""

from __future__ import annotations

import pytest

from duplex_es.observability.readiness import Readiness, utc

pytestmark = pytest.mark.unit


def test_nothing_is_ready_before_every_check_holds() -> None:
    readiness = Readiness("serving", "log")
    assert (readiness.ready, readiness.started, readiness.reason) == (False, False, "starting")
    readiness.passes("serving")
    assert not readiness.ready
    readiness.passes("log")
    assert (readiness.ready, readiness.started, readiness.reason) == (True, True, "")


def test_the_first_check_that_fails_is_the_reason_and_all_are_reported() -> None:
    now = [100.0]
    readiness = Readiness("serving", "log", clock=lambda: now[0])
    readiness.passes("serving")
    readiness.passes("log")
    now[0] = 160.0
    readiness.fails("log", "gone")
    now[0] = 200.0
    readiness.fails("log", "gone")
    assert readiness.report() == {
        "ready": False,
        "reason": "gone",
        "checks": {
            "serving": {"ok": True, "since": utc(100.0)},
            "log": {"ok": False, "since": utc(160.0), "reason": "gone"},
        },
    }
    assert readiness.started


def test_times_are_utc_to_the_millisecond() -> None:
    assert utc(1_900_000_000.25) == "2030-03-17T17:46:40.250Z"
