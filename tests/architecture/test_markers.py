"""The collection rule: a test module names its tier, or it is an error."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parents[2]
TEST = "def test_something() -> None:\n    assert True\n"


def collect(directory: Path, source: str) -> subprocess.CompletedProcess[str]:
    """pytest over one file elsewhere, with this project's configuration and its conftest as a plugin."""
    path = directory / "test_sample.py"
    path.write_text(f"import pytest\n\n{source}\n\n{TEST}")
    options = ["-c", str(ROOT / "pyproject.toml"), "-p", "tests.conftest", "-p", "no:cacheprovider", "-q"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "pytest", *options, str(path)]
    return subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("mark", ["pytest.mark.unit", "[pytest.mark.e2e, pytest.mark.timeout(5)]"])
def test_a_module_with_a_tier_is_collected(tmp_path: Path, mark: str) -> None:
    result = collect(tmp_path, f"pytestmark = {mark}")
    assert result.returncode == 0, result.stdout
    assert "1 passed" in result.stdout


@pytest.mark.parametrize("line", ["", "pytestmark = pytest.mark.timeout(5)"])
def test_a_module_without_a_tier_is_an_error(tmp_path: Path, line: str) -> None:
    result = collect(tmp_path, line)
    assert result.returncode != 0
    assert "names no tier" in result.stdout


def test_a_tier_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    result = collect(tmp_path, "pytestmark = pytest.mark.intergalactic")
    assert result.returncode != 0
    assert "intergalactic" in result.stdout
