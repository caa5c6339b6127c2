"""What operators may do with sessions, beside what every log promises (``duplex_es.testing.log_keeping``)."""

from __future__ import annotations

from typing import cast

import pytest

from duplex_es.log.api import Entry, EntryId, Life, SessionLog, SessionRef
from duplex_es.log.errors import LogError, SessionUnknown
from duplex_es.log.keeping import keeping_of
from duplex_es.log.memory import MemoryLog
from duplex_es.log.restoring import restore
from duplex_es.testing.log_keeping import given
from duplex_es.testing.log_stage import LogStage

pytestmark = pytest.mark.unit


def test_a_log_of_another_kind_is_refused() -> None:
    with pytest.raises(LogError, match="str keeps nothing"):
        keeping_of(cast(SessionLog, "log"))


async def test_a_session_put_back_is_told_from_one_that_was_made_here() -> None:
    log, other = MemoryLog(), MemoryLog()
    attachment, claim = await LogStage.claimed(log, "m")
    await log.close(claim, "done")
    (life,) = await keeping_of(log).lives()
    assert life.created_ms > 1_700_000_000_000
    await restore(other, life.head, given([Entry(EntryId(1, 0), b"r")]), given([]), [])
    assert await keeping_of(other).lives() == [Life((await other.head(attachment.ref.session_id)), 0)]


async def test_nothing_of_an_unknown_session_is_erased() -> None:
    with pytest.raises(SessionUnknown):
        await keeping_of(MemoryLog()).erase(SessionRef("s", 0))
