"""The alert rules as they are shipped, and the same on a faster clock, so that a test need not wait for minutes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "helm/duplex-es/rules").glob("*.yaml"))
WINDOW_S, WAIT_S = 6, 1
_METRIC = re.compile(r"\b(?:duplex|process)_\w+")
_VALUE = re.compile(r'"[^"]*"')


def alerts() -> dict[str, dict[str, Any]]:
    """Every rule by its name."""
    groups = [group for path in FILES for group in yaml.safe_load(path.read_text())["groups"]]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


def hurried(text: str) -> str:
    """The rules of one file with windows and waits of seconds."""
    held = yaml.safe_load(text)
    for group in held["groups"]:
        for rule in group["rules"]:
            rule["expr"] = re.sub(r"(\[|offset )\d+m", rf"\g<1>{WINDOW_S}s", rule["expr"])
            if "for" in rule:
                rule["for"] = f"{WAIT_S}s"
    faster: str = yaml.safe_dump(held)
    return faster


def metrics_in(expression: str) -> set[str]:
    """The names of the families that a query asks for, without the suffixes of histograms."""
    return {re.sub(r"_(bucket|count|sum)$", "", name) for name in _METRIC.findall(_VALUE.sub("", expression))}
