"""What the service added, out of a log written for it."""

from __future__ import annotations

import pytest

from duplex_es.log.api import Record
from duplex_es.log.memory import MemoryLog
from duplex_es.protocol import CommitInput, frames
from duplex_es.protocol.records import pack_input, pack_output
from duplex_es.tools.bench.inside import service_times
from duplex_es.tools.bench.takes import SessionTake

pytestmark = pytest.mark.unit


async def test_commits_count_up_and_sounds_count_down() -> None:
    log = MemoryLog()
    ref = await log.next_incarnation("sess_1")
    attachment = await log.create(ref, model="m", token_digest=b"t", gateway="g", record=b"")
    await log.append_input(attachment, 1, [Record(*pack_input(CommitInput(event_id="evt_1"), 1_005))])
    claimed = await log.claim("w", ["m"])
    assert claimed is not None
    heard = frames.SessionHeartbeatAck(session_id="sess_1")
    await log.append_output(claimed[0], 1, [Record(*pack_output(1_010, frame=heard, consumed="1-1", more=0))])
    take = SessionTake(0, session_id="sess_1", committed_unix_ms={"evt_1": 1_000.0}, heard_unix_ms={1: 1_013.0})
    times = await service_times(log, [take, SessionTake(1, session_id="sess_gone"), SessionTake(2)])
    assert (times.up_ms, times.down_ms) == ([5.0], [3.0])
