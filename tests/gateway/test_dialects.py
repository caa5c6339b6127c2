"""The seam at which a socket's dialect is projected."""

from __future__ import annotations

import pytest

from duplex_es.protocol import RateLimitsUpdated
from gateway.dialects import DUPLEX, project

pytestmark = pytest.mark.unit


def test_duplex_is_the_stream_as_it_stands() -> None:
    frame = RateLimitsUpdated()
    assert project(frame, DUPLEX) == (frame,)


def test_a_dialect_nobody_speaks_is_an_error_not_a_guess() -> None:
    with pytest.raises(KeyError):
        project(RateLimitsUpdated(), "esperanto")
