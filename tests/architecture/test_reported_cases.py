"""Every published report against comparable services that this project took up has a test that names it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

TESTS = Path(__file__).resolve().parents[1]
EVENT_LOGS = [f"E{number}" for number in range(1, 42)]
VOICE = [f"V{number}" for number in range(1, 63)]
LEFT_OUT = {
    "V60": "minutes of a caller are counted, not capped: that is for who sells them",
    "V62": "a proxy that serves this under another path takes it off again",
}
CASES = [case for case in (*EVENT_LOGS, *VOICE) if case not in LEFT_OUT]


@pytest.fixture(scope="module")
def named() -> dict[str, set[str]]:
    """Case → the test files that name it, in a docstring, a comment or the text of a row."""
    found: dict[str, set[str]] = {}
    for path in TESTS.rglob("*.py"):
        if path != Path(__file__):
            for case in re.findall(r"\b[EV]\d{1,2}\b", path.read_text()):
                found.setdefault(case, set()).add(str(path.relative_to(TESTS)))
    return found


@pytest.mark.parametrize("case", CASES)
def test_a_case_has_a_test_that_names_it(case: str, named: dict[str, set[str]]) -> None:
    assert named.get(case), f"no test names {case}"


def test_no_test_names_a_case_that_is_none(named: dict[str, set[str]]) -> None:
    assert named.keys() <= set(CASES)
