"""JSON and lengths."""

from __future__ import annotations

import pytest

from duplex_es.reading.words import json_text, seconds

pytestmark = pytest.mark.unit


def test_json_is_indented_or_one_line() -> None:
    assert json_text({"a": [1]}, lines=True) == '{"a":[1]}'
    assert json_text({"a": 1}) == '{\n  "a": 1\n}'


def test_a_length_that_is_not_known_is_a_dash() -> None:
    assert (seconds(None), seconds(1_234)) == ("-", "1.23 s")
