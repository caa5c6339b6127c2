"""The numbers of a call."""

from __future__ import annotations

import pytest

from duplex_es.tools.log import stats
from duplex_es.tools.log.calls import read_call
from duplex_es.tools.log.dxlog import FileSource
from tests.support.call_files import RECORDING

pytestmark = pytest.mark.unit


async def test_the_numbers_of_a_call() -> None:
    with FileSource(RECORDING) as source:
        found = stats.stats_of(await read_call(source, source.head))
    assert found["answers"] == {"completed": 2, "cancelled": 1}
    assert found["heard_before_interruption_ms"] == [1_500]
    assert (found["caller_ms"], found["assistant_ms"], found["overlap_ms"]) == (4_000, 3_900, 0)
    assert (found["turns"], found["attaches"], found["takeovers"], found["closed"]) == (3, 2, 1, "session_close")
