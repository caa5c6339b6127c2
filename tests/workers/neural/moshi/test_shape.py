"""The constants."""

from __future__ import annotations

import pytest

from workers.neural.moshi.shape import PERSONAPLEX, SHAPES, TINY, MoshiShape

pytestmark = pytest.mark.neural


def test_a_shape_says_what_does_not_fit() -> None:
    with pytest.raises(ValueError, match="delays"):
        MoshiShape(**{**{name: getattr(TINY, name) for name in TINY.__slots__}, "delays": (0, 2)})
    assert SHAPES["tiny"].with_window(7).window == 7
    assert SHAPES["tiny"].with_window(None) is TINY


def test_the_published_model_has_17_ids_a_frame_and_a_window_of_four_minutes() -> None:
    assert (PERSONAPLEX.streams, PERSONAPLEX.made, PERSONAPLEX.head_size, PERSONAPLEX.depth_head_size) == (
        17,
        9,
        128,
        64,
    )
    assert PERSONAPLEX.window * 80 == 240_000
