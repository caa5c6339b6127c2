"""The picture of a report."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import msgspec
import pytest

from duplex_es.tools.bench.plot import draw, require_matplotlib
from duplex_es.tools.bench.report import BenchReport
from duplex_es.tools.errors import ToolError

pytestmark = pytest.mark.unit

EXAMPLE = Path(__file__).resolve().parents[3] / "examples/bench/scripted_50.json"


@pytest.fixture
def report() -> BenchReport:
    return msgspec.json.decode(EXAMPLE.read_bytes(), type=BenchReport)


def test_a_picture_is_written(report: BenchReport, tmp_path: Path) -> None:
    draw(report, tmp_path / "new" / "out.png")
    assert (tmp_path / "new" / "out.png").read_bytes().startswith(b"\x89PNG")


def test_an_unknown_format_is_one_clear_line(report: BenchReport, tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=r"cannot draw .*out\.docx"):
        draw(report, tmp_path / "out.docx")


def test_without_matplotlib_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ToolError, match=r"duplex-es\[plot\]"):
        require_matplotlib()
