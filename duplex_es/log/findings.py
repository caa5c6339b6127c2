"""What an examination says: one finding for each subject, put together where several nodes were looked at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "warning", "failure"]
_WORSE: Mapping[Level, int] = {"ok": 0, "warning": 1, "failure": 2}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at: what was found, and what to change unless it is ``ok``."""

    subject: str
    level: Level
    found: str
    advice: str = ""


def together(by_node: Mapping[str, Sequence[Finding]]) -> list[Finding]:
    """One finding for each subject: the worst of all nodes, which names every node that is as bad."""
    subjects = list(dict.fromkeys(finding.subject for findings in by_node.values() for finding in findings))
    return [_worst(subject, by_node) for subject in subjects]


def _worst(subject: str, by_node: Mapping[str, Sequence[Finding]]) -> Finding:
    said = [(node, one) for node, findings in by_node.items() for one in findings if one.subject == subject]
    level = max((one.level for _, one in said), key=_WORSE.__getitem__)
    named = [(node, one) for node, one in said if one.level == level]
    if len(said) == 1 or len({one.found for _, one in said}) == 1:
        return named[0][1]
    if level == "ok":
        named = named[:1]
    return Finding(subject, level, "; ".join(f"{node}: {one.found}" for node, one in named), named[0][1].advice)
