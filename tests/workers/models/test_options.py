"""Options are text; what comes out is typed, and what is wrong is named."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from workers.models.options import read_options

pytestmark = pytest.mark.unit


@dataclass(frozen=True)
class Some:
    lead_ms: int | None = 600
    rms: float = 0.5
    rules: bool = True
    url: str | None = None


def test_what_is_not_named_keeps_its_default() -> None:
    assert read_options(Some, {}, "m") == Some()


def test_text_becomes_what_the_field_is() -> None:
    found = read_options(Some, {"lead_ms": "250", "rms": "0.1", "rules": "off", "url": "http://x"}, "m")
    assert found == Some(250, 0.1, False, "http://x")


def test_none_is_a_value_where_the_field_allows_it() -> None:
    assert read_options(Some, {"lead_ms": "none"}, "m").lead_ms is None
    with pytest.raises(ValueError, match="rms"):
        read_options(Some, {"rms": "none"}, "m")


def test_an_unknown_option_is_named_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"model m: unknown option 'led'; it has lead_ms, rms, rules, url"):
        read_options(Some, {"led": "1"}, "m")


@pytest.mark.parametrize(("name", "text"), [("lead_ms", "soon"), ("rules", "maybe"), ("rms", "loud")])
def test_a_wrong_value_is_named(name: str, text: str) -> None:
    with pytest.raises(ValueError, match=f"option {name} is '{text}'"):
        read_options(Some, {name: text}, "m")
