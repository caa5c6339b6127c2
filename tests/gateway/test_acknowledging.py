"""Many acknowledgements, few writes, and never a lower one."""

from __future__ import annotations

import asyncio

import pytest

from duplex_es.log.api import Attachment, SessionRef
from duplex_es.log.errors import Fenced, SessionUnknown
from duplex_es.log.memory import MemoryLog
from gateway import acknowledging
from gateway.acknowledging import Acknowledger

pytestmark = pytest.mark.unit

SEAT = Attachment(SessionRef("mine", 0), 1, "g")


class Boundary(MemoryLog):
    """Keeps what is acknowledged."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[int] = []
        self.failure: Exception | None = None

    async def acknowledge(self, attachment: Attachment, seq: int) -> None:
        """See ``SessionLog``."""
        if self.failure is not None:
            raise self.failure
        self.written.append(seq)


def test_only_what_was_sent_is_covered() -> None:
    acknowledger = Acknowledger(Boundary(), SEAT, lambda: 5)
    assert [acknowledger.covers(seq) for seq in (0, 5, 6)] == [True, True, False]


async def test_a_burst_costs_one_write_of_the_highest() -> None:
    log = Boundary()
    acknowledger = Acknowledger(log, SEAT, lambda: 100)
    for seq in (3, 9, 4, 9):
        acknowledger.note(seq)
    await acknowledger.flush()
    await acknowledger.flush()
    acknowledger.note(8)
    await acknowledger.flush()
    assert log.written == [9]


async def test_it_goes_on_writing_while_the_session_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acknowledging, "INTERVAL_S", 0)
    log = Boundary()
    acknowledger = Acknowledger(log, SEAT, lambda: 100)
    task = asyncio.create_task(acknowledger.run())
    for seq in (1, 2):
        acknowledger.note(seq)
        while not log.written or log.written[-1] != seq:
            await asyncio.sleep(0)
    log.failure = SessionUnknown("over")
    acknowledger.note(3)
    await asyncio.wait_for(task, 30)
    assert log.written == [1, 2]


async def test_a_superseded_socket_learns_it_here_too() -> None:
    log = Boundary()
    log.failure = Fenced("newer")
    acknowledger = Acknowledger(log, SEAT, lambda: 100)
    acknowledger.note(3)
    with pytest.raises(Fenced):
        await acknowledger.run()
