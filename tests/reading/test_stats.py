"""Spans of time, and the numbers of a call."""

from __future__ import annotations

import pytest

from duplex_es.reading.calls import read_call
from duplex_es.reading.dxlog import FileSource
from duplex_es.reading.stats import length, longest_gap, stats_of, union
from tests.support.call_files import RECORDING

pytestmark = pytest.mark.unit


async def test_the_numbers_of_a_call() -> None:
    with FileSource(RECORDING) as source:
        found = stats_of(await read_call(source, source.head))
    assert found["answers"] == {"completed": 2, "cancelled": 1}
    assert found["heard_before_interruption_ms"] == [1_500]
    assert (found["caller_ms"], found["assistant_ms"], found["overlap_ms"]) == (4_000, 3_900, 0)
    assert (found["turns"], found["attaches"], found["takeovers"], found["closed"]) == (3, 2, 1, "session_close")


def test_time_is_counted_once() -> None:
    merged = union([(4.0, 6.0), (0.0, 2.0), (1.0, 3.0)])
    assert merged == [(0.0, 3.0), (4.0, 6.0)]
    assert length(merged) == 5.0
    assert longest_gap(merged, 10.0) == 4.0
