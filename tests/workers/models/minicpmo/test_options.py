"""What the engine is told of the options."""

from __future__ import annotations

import pytest

from workers.models.minicpmo.options import MiniCPMOptions

pytestmark = pytest.mark.unit


def test_the_engine_is_told_what_concerns_it_and_not_who_runs_it() -> None:
    options = MiniCPMOptions(weights="/w", python="/p", objects="2", voices_from="https://a.example/")
    assert options.engine == {
        "weights": "/w",
        "objects": "2",
        "device": "cuda",
        "fake": "no",
        "seed": "0",
        "window": "basic",
        "compile": "no",
    }
    assert "weights" not in MiniCPMOptions(fake=True).engine


def test_prefixes_are_read_one_by_one() -> None:
    assert MiniCPMOptions(voices_from="https://a.example/, file:///v/").allowed == ("https://a.example/", "file:///v/")


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (MiniCPMOptions(), "weights"),
        (MiniCPMOptions(fake=True, objects="0"), "objects"),
        (MiniCPMOptions(fake=True, window="wide"), "window"),
        (MiniCPMOptions(fake=True, voices_from="https://a.example"), "voices_from"),
        (MiniCPMOptions(fake=True, voices_from="ftp://a.example/"), "voices_from"),
    ],
)
def test_what_cannot_work_is_said(options: MiniCPMOptions, names: str) -> None:
    assert names in (options.complaint() or "")


def test_what_can_work_needs_no_word() -> None:
    assert MiniCPMOptions(weights="/w").complaint() is None
