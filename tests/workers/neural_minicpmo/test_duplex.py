"""The double has the methods that are asked of the authors' objects, with the same arguments, and no others."""

from __future__ import annotations

import inspect

import pytest

from workers.neural_minicpmo.duplex import Duplex
from workers.neural_minicpmo.fake import FakeDuplex

pytestmark = pytest.mark.unit


def public(kind: type) -> set[str]:
    return {name for name, _ in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")}


def test_the_double_offers_what_the_original_does_and_nothing_else() -> None:
    assert public(FakeDuplex) == public(Duplex)


@pytest.mark.parametrize("name", ["prepare", "streaming_prefill"])
def test_their_arguments_are_the_same(name: str) -> None:
    wanted, found = (inspect.signature(getattr(kind, name)).parameters for kind in (Duplex, FakeDuplex))
    assert list(wanted) == list(found)
