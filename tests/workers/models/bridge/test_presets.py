"""A preset is the card of its model, and what no server says of itself."""

from __future__ import annotations

import pytest

from duplex_es.protocol.audio import PCM16, PCM_F32LE
from workers.models import cards
from workers.models.bridge.presets import PRESETS

pytestmark = pytest.mark.unit

KNOWN = {
    "minicpmo_4_5": cards.MINICPM,
    "personaplex": cards.PERSONAPLEX,
    "nemotron_voicechat": cards.NEMOTRON,
    "qwen3_omni": cards.QWEN3_OMNI,
}


def test_there_is_one_for_every_published_model_and_one_for_any_other() -> None:
    assert set(PRESETS) == {*KNOWN, "any"}


@pytest.mark.parametrize("name", KNOWN)
def test_it_holds_what_the_models_card_says(name: str) -> None:
    preset, info = PRESETS[name], KNOWN[name].info
    for field in ("capabilities", "input_rate_hz", "longest_append_samples", "fixed_settings", "private_keys"):
        assert getattr(preset, field) == getattr(info, field), field


def test_the_wire_has_the_format_each_takes_and_gives_sound_at_24_khz() -> None:
    assert {name: preset.encoding for name, preset in PRESETS.items() if preset.encoding != PCM16} == {
        "personaplex": PCM_F32LE
    }
    assert {preset.output_rate_hz for preset in PRESETS.values()} == {24_000}


def test_written_turns_and_pictures_are_for_those_that_take_them() -> None:
    assert {name for name, preset in PRESETS.items() if preset.takes_text_turns} == {
        *("any", "minicpmo_4_5", "qwen3_omni")
    }
    assert {name for name, preset in PRESETS.items() if preset.takes_frames} == {"minicpmo_4_5"}
