"""What an archiving process tells those who watch it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from duplex_es.archive.files import Files
from duplex_es.archive.following import Following
from duplex_es.archive.layout import LifeName
from duplex_es.archive.reporting import Met, Reporter
from duplex_es.archive.writing import Archiver
from duplex_es.log.errors import LogUnavailable
from duplex_es.log.keeping import keeping_of
from duplex_es.log.memory import MemoryLog
from duplex_es.observability.prometheus import PrometheusMetrics
from duplex_es.reading.errors import ReadingError
from tests.support.archives import Shelf, planted_call

pytestmark = pytest.mark.unit

ONE, OTHER = LifeName("call-1", 0, 1), LifeName("call-2", 0, 2)


class Clock:
    """Unix seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


class Watched:
    """A reporter and all that it says."""

    def __init__(self) -> None:
        self.clock, self.metrics = Clock(), PrometheusMetrics("archive")
        self.reporter = Reporter(self.metrics, self.clock)

    def figures(self) -> dict[str, float]:
        lines = self.metrics.exposition().decode().splitlines()
        return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line[0] != "#")}

    def __getitem__(self, name: str) -> float:
        return self.figures()[f"duplex_archive_{name}"]

    async def page(self, path: str) -> tuple[int, dict[str, Any]]:
        page = await self.reporter.pages[path]()
        return page.status, json.loads(page.body)


def test_it_is_behind_by_what_the_store_has_and_the_archive_has_not_since_it_was_met() -> None:
    watched = Watched()
    reporter = watched.reporter
    reporter.begins({ONE: Met(40, True), OTHER: Met(10, False)}, known=3)
    watched.clock.now_s += 5
    assert (watched["behind_records"], watched["behind_seconds"]) == (50, 5)
    reporter.done(ONE, 40, whole=True)
    reporter.failed("archive", "cannot write")
    reporter.ends(failed=1)
    reporter.begins({OTHER: Met(12, False)}, known=4)
    watched.clock.now_s += 5
    assert (watched["behind_records"], watched["behind_seconds"]) == (12, 10), "counted from when it was met first"
    assert watched["archived_total"] == 1
    assert watched['sessions{state="following"}'] == 1 and watched['sessions{state="archived"}'] == 4
    reporter.done(OTHER, 12, whole=False)
    assert (watched["behind_records"], watched["behind_seconds"]) == (0, 0)
    reporter.begins({OTHER: Met(15, False)}, known=4)
    assert watched["behind_records"] == 3, "a session that goes on is behind by what came since"


def test_the_last_success_is_the_end_of_a_pass_without_a_failure() -> None:
    watched = Watched()
    for failed, expected in ((1, 0), (0, 1_060), (2, 1_060)):
        watched.reporter.begins({}, known=0)
        watched.reporter.ends(failed)
        assert watched["last_success_timestamp_seconds"] == expected
        watched.clock.now_s += 60


async def test_it_is_ready_once_a_pass_was_made_and_says_which_of_both_places_does_not_answer() -> None:
    watched = Watched()
    assert (await watched.page("/healthz"))[0] == 200
    assert (await watched.page("/startupz"))[0] == 503
    watched.reporter.begins({}, known=0)
    assert (await watched.page("/readyz"))[1]["reason"] == "starting"
    watched.reporter.ends(0)
    assert (await watched.page("/readyz"))[0] == 200
    watched.reporter.failed("archive", "cannot write /calls/x")
    status, said = await watched.page("/readyz")
    assert (status, said["reason"]) == (503, "cannot write /calls/x")
    watched.reporter.failed("store", "no connection")
    assert {name: check["ok"] for name, check in (await watched.page("/readyz"))[1]["checks"].items()} == {
        "log": False,
        "archive": False,
    }
    assert watched.figures()["duplex_log_up"] == 0
    assert (await watched.page("/startupz"))[0] == 200
    watched.reporter.begins({}, known=0)
    watched.reporter.ends(0)
    assert watched.figures()['duplex_ready{component="archive"}'] == 1
    assert watched.figures()["duplex_log_up"] == 1


def test_what_was_erased_or_has_gone_meanwhile_is_counted_and_is_no_fault() -> None:
    watched = Watched()
    watched.reporter.begins({ONE: Met(1, True)}, known=0)
    watched.reporter.ends(0)
    for kind in ("erased", "gone"):
        watched.reporter.failed(kind, "meanwhile")
        assert watched[f'failures_total{{kind="{kind}"}}'] == 1
    assert watched.reporter.readiness.ready


async def test_a_pass_counts_what_it_writes_and_what_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shelf, watched, log = Shelf(tmp_path), Watched(), MemoryLog()
    await planted_call(log)
    await planted_call(log, "call-2", closes=False)
    archiver = Archiver(shelf.files, shelf.keys, metrics=watched.metrics)
    following = Following(log, archiver, follows_open=True, reporter=watched.reporter)
    await following.sweep()
    assert watched["archived_total"] == 1 and watched["behind_records"] == 0
    for stream in ("input", "output"):
        assert watched[f'segments_total{{stream="{stream}"}}'] == 2, "one of each session"
    sealed = sum(path.stat().st_size for path in tmp_path.rglob("*put-*.seg"))
    assert sum(watched[f'bytes_total{{stream="{stream}"}}'] for stream in ("input", "output")) == sealed

    def full(self: Files, path: str, data: bytes) -> bool:
        raise ReadingError("no space left")

    monkeypatch.setattr(Files, "put_new", full)
    await keeping_of(log).terminate((await log.head("call-2")).ref, "done")
    assert (await following.sweep()).failed == 1
    assert watched['failures_total{kind="archive"}'] == 1
    assert watched.reporter.readiness.reason == "no space left"
    watched.clock.now_s += 7
    assert watched["behind_seconds"] == 7, "it is closed, and not archived whole"


async def test_a_store_that_cannot_be_listed_is_told_and_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf, watched, log = Shelf(tmp_path), Watched(), MemoryLog()
    following = Following(log, shelf.archiver, reporter=watched.reporter)
    asked = asyncio.Event()
    real = following._keeping.lives

    async def lives(session_id: str | None = None, *, closed: bool = False) -> Any:
        if not asked.is_set():
            asked.set()
            raise LogUnavailable("no connection")
        return await real(session_id, closed=closed)

    monkeypatch.setattr(following._keeping, "lives", lives)
    running = asyncio.create_task(following.run(0.01))
    async with asyncio.timeout(60):
        while not watched.reporter.readiness.ready:
            await asyncio.sleep(0.01)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert watched['failures_total{kind="store"}'] == 1
