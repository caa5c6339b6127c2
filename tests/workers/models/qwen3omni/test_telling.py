"""What an engine's pieces must say of their sound."""

from __future__ import annotations

from typing import Any

import pytest

from workers.engine.turns import TurnPiece
from workers.models.qwen3omni.telling import SoundUnusable, rate_of

pytestmark = pytest.mark.unit

GOOD = {"format": "pcm", "sample_rate_hz": 24_000, "frame_count": 2, "channels": 1}


def piece(**fields: Any) -> TurnPiece:
    return TurnPiece(pcm=b"abcd", audio_metadata={**GOOD, **fields})


def test_a_piece_says_its_rate() -> None:
    assert rate_of(piece(), None) == rate_of(piece(), 24_000) == 24_000


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"format": "opus"}, r"audio_metadata\.format"),
        ({"channels": 2}, r"audio_metadata\.channels"),
        ({"frame_count": 4}, r"audio_metadata\.frame_count is 4, but there are 4 bytes"),
        ({"sample_rate_hz": "24k"}, r"audio_metadata\.sample_rate_hz"),
        ({"sample_rate_hz": 0}, r"audio_metadata\.sample_rate_hz"),
    ],
)
def test_what_is_wrong_is_named(fields: dict[str, Any], fault: str) -> None:
    with pytest.raises(SoundUnusable, match=fault):
        rate_of(piece(**fields), None)


def test_sound_that_says_nothing_of_itself_cannot_be_played() -> None:
    with pytest.raises(SoundUnusable, match="without audio_metadata"):
        rate_of(TurnPiece(pcm=b"ab"), None)


def test_the_rate_stays_within_an_answer() -> None:
    with pytest.raises(SoundUnusable, match="changed from 16000 to 24000 Hz"):
        rate_of(piece(), 16_000)
