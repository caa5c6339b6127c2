"""What the deploying guide shows of values and of what they become is in the chart, word for word."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import pytest
import yaml

from tests.support.kubernetes.chart import CASES, ROOT, case, rendered

pytestmark = [pytest.mark.helm, pytest.mark.timeout(300)]

GUIDE = ROOT / "docs" / "guides" / "deploying.md"
VALUES = re.compile(r"<!-- values: (?P<case>\S+) -->\n```yaml\n(?P<shown>.*?)```", re.DOTALL)
RENDERED = re.compile(
    r"<!-- rendered: (?P<case>\S+) (?P<kind>\S+) (?P<name>\S+) -->\n```yaml\n(?P<shown>.*?)```", re.DOTALL
)
REQUIRED = {"minimal", "sentinel", "cluster-tls", "gpu"}


def missing(shown: Any, held: Any, where: str = "") -> list[str]:
    """What of ``shown`` is not in ``held``: of lists each element must be part of one there."""
    if isinstance(shown, dict):
        if not isinstance(held, dict):
            return [where]
        return [each for key, part in shown.items() for each in missing(part, held.get(key), f"{where}.{key}")]
    if isinstance(shown, list):
        if not isinstance(held, list):
            return [where]
        return [f"{where}[{part}]" for part in shown if not any(not missing(part, each) for each in held)]
    return [] if shown == held else [f"{where} is {held!r}, not {shown!r}"]


def test_values_that_are_shown_are_those_of_the_files() -> None:
    shown = list(VALUES.finditer(GUIDE.read_text()))
    assert {found["case"] for found in shown} | {"minimal"} == REQUIRED
    for found in shown:
        defaulted = yaml.safe_load((ROOT / "helm/duplex-es/ci" / f"{found['case']}.yaml").read_text())
        assert missing(yaml.safe_load(found["shown"]), defaulted) == []


@pytest.mark.parametrize(
    "found", list(RENDERED.finditer(GUIDE.read_text())), ids=lambda found: f"{found['case']}-{found['kind']}"
)
def test_what_is_shown_is_what_comes_out(found: re.Match[str]) -> None:
    objects = {(each["kind"], each["metadata"]["name"]): each for each in rendered(found["case"])}
    assert missing(yaml.safe_load(found["shown"]), objects[found["kind"], found["name"]]) == []


def test_every_values_file_is_counted() -> None:
    """The last table: how many objects each file makes."""
    text = GUIDE.read_text()
    for values in CASES:
        kinds = Counter(each["kind"] for each in rendered(values))
        assert f"| `ci/{values}.yaml` | {sum(kinds.values())} |" in text
        assert case(values).exists()
