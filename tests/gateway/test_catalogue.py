"""Lists of sessions."""

from __future__ import annotations

import pytest

from duplex_es.log.api import Head
from duplex_es.log.memory import MemoryLog
from duplex_es.reading.source import LiveSource
from gateway.archived import ArchivedHead
from gateway.catalogue import Catalogue, Wanted
from tests.support.recorded import record_session
from tests.support.recorded_call import record_call

pytestmark = pytest.mark.unit


class Counting(LiveSource):
    """Counts what was read."""

    reads = 0

    def input(self, head: Head, *where: object, **how: object):  # type: ignore[no-untyped-def]
        """See ``Source``."""
        Counting.reads += 1
        return super().input(head, *where, **how)  # type: ignore[arg-type]


async def test_the_newest_come_first_and_a_beginning_is_read_once() -> None:
    log = MemoryLog()
    await record_session(log, "old")
    await record_call(log, "new")
    Counting.reads = 0
    catalogue = Catalogue(Counting(log, "memory://"))
    for _ in range(3):
        rows, total = await catalogue.listed(Wanted(limit=1))
        assert ([row["id"] for row in rows], total) == (["new"], 2)
    assert Counting.reads == 2


async def test_a_session_in_which_something_failed_is_found_by_that() -> None:
    log = MemoryLog()
    await record_session(log, "fine")
    assert await Catalogue(LiveSource(log, "memory://")).listed(Wanted(error=True)) == ([], 0)


@pytest.mark.parametrize(
    ("wanted", "age_s", "passes"),
    [
        (Wanted(), None, True),
        (Wanted(newer_than_s=5), None, False),
        (Wanted(newer_than_s=5), 4.0, True),
        (Wanted(newer_than_s=5), 6.0, False),
        (Wanted(older_than_s=5), 6.0, True),
        (Wanted(older_than_s=5, newer_than_s=7), 8.0, False),
    ],
)
def test_age_is_bounded_on_both_sides(wanted: Wanted, age_s: float | None, passes: bool) -> None:
    assert wanted.is_of_age(age_s) is passes


async def test_an_id_that_came_around_again_from_the_archive_has_its_own_beginning() -> None:
    log = MemoryLog()
    await record_call(log, "again")
    live = LiveSource(log, "memory://")

    heads: list[Head] = [ArchivedHead.of(await live.find("again"), 5, 8)]

    class Both(LiveSource):
        """First only the archive has it, then only the store."""

        async def sessions(self) -> list[Head]:
            """See ``Source``."""
            return heads

    catalogue = Catalogue(Both(log, "memory://"))
    ((row,), _) = await catalogue.listed(Wanted())
    assert (row["archived"], row["begun_ms"], row["length_ms"]) == (True, 5, 3)
    heads[:] = await live.sessions()
    ((row,), _) = await catalogue.listed(Wanted())
    assert row["archived"] is False and row["begun_ms"] > 1_600_000_000_000
