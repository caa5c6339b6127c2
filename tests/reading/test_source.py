"""One interface over a store and a file."""

from __future__ import annotations

import pytest

from duplex_es.log.api import EntryId
from duplex_es.log.memory import MemoryLog
from duplex_es.reading.errors import ReadingError
from duplex_es.reading.source import LiveSource
from tests.support.long_call import SCRIPT, LongCall
from tests.support.recorded import record_session
from tests.support.recorded_call import RecordedCall, record_call

pytestmark = pytest.mark.unit


async def test_a_session_is_found_by_id_by_incarnation_or_as_the_only_one() -> None:
    log = MemoryLog()
    await record_call(log)
    source = LiveSource(log, "memory://")
    heads = [await source.find(name) for name in ("call-1", "call-1#0", None)]
    assert len({head.ref for head in heads}) == 1
    for unknown in ("nobody", "call-1#7"):
        with pytest.raises(ReadingError, match="no session"):
            await source.find(unknown)
    await record_session(log, "other")
    with pytest.raises(ReadingError, match="2 sessions"):
        await source.find(None)


async def test_what_comes_after_the_head_is_not_read_and_what_was_trimmed_is_passed_over() -> None:
    log = MemoryLog()
    call: LongCall = await RecordedCall.begin(log, "live", SCRIPT % 800)
    await call.second()
    await call.turn()
    source = LiveSource(log, "memory://")
    head = await source.find("live")
    await call.second()
    await call.turn()
    seqs = [entry.id.number async for entry in source.output(head)]
    assert seqs == list(range(1, head.output.number + 1))
    assert [entry.id async for entry in source.input(head)][-1] == head.input
    await log.trim_history(call.actor.claim, input_before=EntryId(1, 4), output_before=5)
    assert [entry.id.number async for entry in source.output(head)] == seqs[4:]
    assert next(iter([entry.id async for entry in source.input(head)])) == EntryId(1, 4)
    await call.end()
