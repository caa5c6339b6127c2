"""The facts of an engine, as they travel."""

from __future__ import annotations

import pytest

from workers.engine.contract import EngineFacts

pytestmark = pytest.mark.unit


def test_facts_survive_their_way_and_know_the_size_of_a_frame() -> None:
    facts = EngineFacts("m", 80, 24_000, 22_050, slots=4, window_frames=3000, memory_bytes=34, device="cuda")
    assert EngineFacts(**facts.plain()) == facts
    assert (facts.samples_in, facts.samples_out) == (1920, 1764)
