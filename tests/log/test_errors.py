"""The tree of what can go wrong."""

from __future__ import annotations

import inspect

import pytest

from duplex_es.log import errors
from duplex_es.log.api import EntryId

pytestmark = pytest.mark.unit

KINDS = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if kind.__module__ == errors.__name__]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_error_is_a_log_error_and_stands_in_the_tree(kind: type[Exception]) -> None:
    assert issubclass(kind, errors.LogError)
    assert kind.__doc__
    assert kind.__name__ in (errors.__doc__ or "")


def test_errors_about_positions_carry_them() -> None:
    assert errors.PositionGone(41).first_available == 41
    assert "40" in str(errors.PositionGone(41))
    assert errors.PositionGone(7, EntryId(2, 6)).trimmed == EntryId(2, 6)
    assert "2-6" in str(errors.PositionGone(7, EntryId(2, 6)))
    assert errors.PositionAhead(40).last == 40
    assert errors.TailLost(7).head_seq == 7
    assert "7" in str(errors.TailLost(7))
