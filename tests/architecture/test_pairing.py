"""Every source file has the test file of its name: ``duplex_es/log/api.py`` has ``tests/log/test_api.py``."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parents[2]

# Files and folders whose tests lie elsewhere, and where.
EXEMPT = {
    "duplex_es/model/contract.py": "an interface; tests/conformance holds every model to it",
    "duplex_es/testing": "is itself tests; run by tests/conformance and tests/session",
}


def twin(path: Path) -> Path:
    """Where the tests of ``path`` lie: the library's own folder is left out, the servers' names stay."""
    parts = path.relative_to(ROOT).parts
    folder = parts[1:-1] if parts[0] == "duplex_es" else parts[:-1]
    return ROOT / "tests" / Path(*folder) / f"test_{path.name}"


def has_behaviour(path: Path) -> bool:
    """Whether there is anything to run: records, unions, tables and re-exports have no function to test."""
    functions = ast.FunctionDef | ast.AsyncFunctionDef
    return any(isinstance(node, functions) for node in ast.walk(ast.parse(path.read_text())))


def sources() -> list[Path]:
    """Every module that can behave wrongly."""
    files = (path for top in ("duplex_es", "gateway", "workers") for path in sorted((ROOT / top).rglob("*.py")))
    return [path for path in files if has_behaviour(path) and path.name != "__init__.py"]


def test_a_package_file_only_re_exports() -> None:
    crowded = [path for top in ("duplex_es", "gateway", "workers") for path in (ROOT / top).rglob("__init__.py")]
    assert [str(path.relative_to(ROOT)) for path in crowded if has_behaviour(path)] == []


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_source_file_has_its_test_file(path: Path) -> None:
    name = str(path.relative_to(ROOT))
    expected = twin(path)
    is_exempt = any(path.is_relative_to(ROOT / exempt) for exempt in EXEMPT)
    assert is_exempt != expected.exists(), f"{expected.relative_to(ROOT)} is missing, or {name} is exempt for no reason"


def test_the_list_of_exemptions_names_only_what_exists() -> None:
    assert [name for name in EXEMPT if not (ROOT / name).exists()] == []
