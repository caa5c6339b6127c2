"""Every published report against comparable event logs that this project took up has a test that names it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

TESTS = Path(__file__).resolve().parents[1]
CASES = [f"E{number}" for number in range(1, 42)]


@pytest.fixture(scope="module")
def named() -> dict[str, set[str]]:
    """Case → the test files that name it, in a docstring, a comment or the text of a row."""
    found: dict[str, set[str]] = {}
    for path in TESTS.rglob("*.py"):
        if path != Path(__file__):
            for case in re.findall(r"\bE\d{1,2}\b", path.read_text()):
                found.setdefault(case, set()).add(str(path.relative_to(TESTS)))
    return found


@pytest.mark.parametrize("case", CASES)
def test_a_case_has_a_test_that_names_it(case: str, named: dict[str, set[str]]) -> None:
    assert named.get(case), f"no test names {case}"


def test_no_test_names_a_case_that_is_none(named: dict[str, set[str]]) -> None:
    assert named.keys() <= set(CASES)
