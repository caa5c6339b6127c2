"""The last thing a client said that arrived."""

from __future__ import annotations

import pytest

from duplex_es.log.api import Attachment, EntryId, Record
from duplex_es.log.memory import MemoryLog
from duplex_es.protocol import AppendText, Heartbeat, OpenSession, RefuseCommand, Said, SocketAttached
from gateway import heard as module
from gateway.heard import UNKNOWN, Heard, last_heard
from gateway.writer import record_of

pytestmark = pytest.mark.unit


class CountingLog(MemoryLog):
    """Counts what is read backwards."""

    pages: list[int]

    async def read_input_back(self, ref, before=None, *, limit=100):  # type: ignore[no-untyped-def]
        """See ``SessionLog``."""
        self.pages = [*getattr(self, "pages", []), limit]
        return await super().read_input_back(ref, before, limit=limit)


async def opened(log: MemoryLog, *said: Said) -> Attachment:
    """A session in whose first attachment all this was said."""
    ref = await log.next_incarnation("mine")
    record = record_of(SocketAttached(generation=1, gateway="g")).body
    attachment = await log.create(ref, model="m", token_digest=b"1", gateway="g", record=record)
    await log.append_input(attachment, 1, [record_of(one) for one in said])
    return attachment


async def taken_up(log: MemoryLog, attachment: Attachment, *said: Said) -> Attachment:
    """The next attachment, and what was said in it."""
    generation = attachment.generation + 1
    taken, _ = await log.attach(
        attachment.ref,
        presented_digest=str(generation - 1).encode(),
        next_digest=str(generation).encode(),
        gateway="g",
        record=record_of(SocketAttached(generation=generation, gateway="g")).body,
    )
    await log.append_input(taken, 1, [record_of(one) for one in said])
    return taken


def text(event_id: str) -> AppendText:
    return AppendText(text="x", event_id=event_id)


async def test_it_is_the_last_one_that_bears_an_id() -> None:
    log = CountingLog()
    first = await opened(log, OpenSession(session={}, event_id="evt_0"), text("evt_1"), text("evt_2"), Heartbeat())
    second = await taken_up(log, first)
    assert await last_heard(log, second) == Heard("evt_2")
    assert log.pages == [module.PAGES[0]], "one look at the end of the input is enough"


async def test_what_the_new_socket_says_itself_does_not_count() -> None:
    log = MemoryLog()
    second = await taken_up(log, await opened(log, text("old")), text("new"))
    assert await last_heard(log, second) == Heard("old")


async def test_it_reaches_back_over_sockets_on_which_nothing_arrived() -> None:
    log = MemoryLog()
    attachment = await opened(log, text("evt_1"))
    for _ in range(3):
        attachment = await taken_up(log, attachment, Heartbeat())
    assert await last_heard(log, attachment) == Heard("evt_1")


async def test_a_refused_event_arrived_as_well() -> None:
    log = MemoryLog()
    refused = RefuseCommand(code="bad_event", message="no", event_id="evt_9")
    assert await last_heard(log, await taken_up(log, await opened(log, text("evt_1"), refused))) == Heard("evt_9")


async def test_a_session_in_which_nothing_bears_an_id_is_told_apart_from_one_that_cannot_tell() -> None:
    log = MemoryLog()
    first = await opened(log, *(Heartbeat() for _ in range(100)))
    second = await taken_up(log, first)
    assert await last_heard(log, second) == Heard(None)
    session = log._current["mine"]
    session.input[:] = [entry for entry in session.input if entry.id > EntryId(1, 50)]  # As trimming does.
    assert await last_heard(log, second) == UNKNOWN


async def test_it_is_found_behind_many_that_bear_none_and_not_looked_for_forever() -> None:
    log = CountingLog()
    second = await taken_up(log, await opened(log, text("far"), *(Heartbeat() for _ in range(700))))
    assert await last_heard(log, second) == Heard("far")
    third = await taken_up(log, second, *(Heartbeat() for _ in range(5_000)))
    log.pages.clear()
    assert await last_heard(log, await taken_up(log, third)) == UNKNOWN
    assert log.pages == list(module.PAGES)


async def test_a_record_that_cannot_be_read_is_passed_over() -> None:
    log = MemoryLog()
    first = await opened(log, text("evt_1"))
    await log.append_input(first, 2, [Record(b"\xc1")])
    assert await last_heard(log, await taken_up(log, first)) == Heard("evt_1")
