"""What an operator may say, as the engine is told it."""

from __future__ import annotations

import pytest

from workers.models.qwen3omni.options import QwenOptions

pytestmark = pytest.mark.unit


def test_options_of_the_published_files_make_sense() -> None:
    assert QwenOptions(weights="/models/qwen").complaint() is None
    assert QwenOptions(weights="random", shape="tiny", device="cpu", threads=1).complaint() is None


@pytest.mark.parametrize(
    "fault", [{"longest_answer_s": 0.0}, {"talker_temperature": -1.0}, {"threads": 0}, {"max_tokens": 0}]
)
def test_numbers_have_bounds(fault: dict[str, float]) -> None:
    complaint = QwenOptions(weights="/models/qwen", **fault).complaint()  # type: ignore[arg-type]
    assert complaint is not None
    assert next(iter(fault)) in complaint


def test_the_engine_is_told_in_text_and_nothing_of_the_interpreter() -> None:
    told = QwenOptions(weights="random", shape="tiny", slots="3", threads=1).engine
    assert (told["weights"], told["slots"], told["threads"]) == ("random", "3", "1")
    assert {"python", "lead_ms", "voice"}.isdisjoint(told)
    assert "threads" not in QwenOptions(weights="/models/qwen").engine
