"""Backoff between resumes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duplex_es.client import ReconnectPolicy

pytestmark = pytest.mark.unit


def test_the_ceiling_doubles_up_to_the_limit_and_the_floor_stays() -> None:
    policy = ReconnectPolicy()
    ceilings = [policy.delay_s(attempt, draw=lambda _, high: high) for attempt in range(6)]
    floors = [policy.delay_s(attempt, draw=lambda low, _: low) for attempt in range(6)]
    assert ceilings == [0.25, 0.5, 1.0, 2.0, 4.0, 4.0]
    assert floors == [0.25] * 6


@given(attempt=st.integers(0, 60), low=st.floats(0, 5), high=st.floats(0, 60))
def test_a_delay_is_never_negative_nor_above_both_limits(attempt: int, low: float, high: float) -> None:
    delay_s = ReconnectPolicy(backoff_s=(low, high)).delay_s(attempt)
    assert 0 <= delay_s <= max(low, high) * 1.0000001
