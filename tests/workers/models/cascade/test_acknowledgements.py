"""What a listener says without wanting the floor."""

from __future__ import annotations

import pytest

from workers.models.cascade.acknowledgements import is_acknowledgement

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    "said", ["Okay.", "yeah", "Yeah, okay.", "Uh-huh.", "Mm-hmm", "Keep going!", "I see. Go on.", "好的"]
)
def test_it_is_one(said: str) -> None:
    assert is_acknowledgement(said)


@pytest.mark.parametrize("said", ["", "...", "No.", "Okay, but wait.", "Stop.", "Go", "What time is it?", "right now"])
def test_it_is_none(said: str) -> None:
    assert not is_acknowledgement(said)
