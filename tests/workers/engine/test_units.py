"""A unit on the wire."""

from __future__ import annotations

import pytest

from workers.engine.units import pack_unit, unpack_unit

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("frames", [(), (b"one",), (b"one", b"", b"three")])
def test_a_unit_comes_out_as_it_went_in(frames: tuple[bytes, ...]) -> None:
    message, blob = pack_unit("a", 7, b"sound", frames, True)
    assert (message["session"], message["serial"], message["forced"]) == ("a", 7, True)
    assert unpack_unit(message, blob) == (b"sound", list(frames))
