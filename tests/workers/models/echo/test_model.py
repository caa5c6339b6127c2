"""The echo model's card and options."""

from __future__ import annotations

import pytest

from workers.models.echo import PLUGIN

pytestmark = pytest.mark.unit


def test_the_card_says_what_it_does() -> None:
    info = PLUGIN({}).info
    assert info.name == "echo"
    assert (info.input_rate_hz, info.output_rate_hz) == (24_000, 24_000)
    assert info.transcribes and info.takes_text_turns and info.ends_turns


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(ValueError, match="model echo: unknown option 'speed'"):
        PLUGIN({"speed": "2"})
