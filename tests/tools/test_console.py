"""Lines and tables."""

from __future__ import annotations

import io

import pytest

from duplex_es.tools.console import Console, table_lines

pytestmark = pytest.mark.unit


def test_columns_line_up_and_the_last_one_wraps_under_itself() -> None:
    lines = table_lines([("a", "short"), ("longer", "one two three four five six")], width=32)
    assert lines == ["  a       short", "  longer  one two three four", "          five six"]


def test_no_rows_are_no_lines() -> None:
    assert table_lines([], width=80) == []


def test_a_named_line_carries_its_process_and_no_colour_codes_into_a_file() -> None:
    stream = io.StringIO()
    console = Console(stream)
    console.named("gw-1", "ready")
    console.heading("Title")
    assert stream.getvalue() == "gw-1      | ready\n\nTitle\n"


def test_each_process_keeps_its_own_colour() -> None:
    stream = io.StringIO()
    console = Console(stream, is_colourful=True)
    for name in ("gw-1", "gw-2", "gw-1"):
        console.named(name, "x")
    first, second, third = stream.getvalue().splitlines()
    assert first == third
    assert first.split("m")[0] != second.split("m")[0]


def test_numbers_stand_under_each_other_at_the_right() -> None:
    stream = io.StringIO()
    Console(stream).columns([["name", "p50"], ["a longer name", "1.0"], ["b", "100.0"]])
    assert stream.getvalue() == "  name             p50\n  a longer name    1.0\n  b              100.0\n"
