"""Options that cannot work are refused before anybody is served."""

from __future__ import annotations

import pytest

from workers.models.chat import PLUGIN

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"audio_part": "mp3"}, "audio_part"),
        ({"output_rate_hz": "5"}, "output_rate_hz"),
        ({"url": "x"}, "url"),
        ({"audio": "perhaps"}, "audio"),
    ],
)
def test_an_option_that_cannot_work_is_refused_by_name(options: dict[str, str], names: str) -> None:
    with pytest.raises(ValueError, match=names):
        PLUGIN(options)
