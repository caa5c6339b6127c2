"""Label and field selectors of list and watch requests."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any


def selects(query: Mapping[str, str], held: dict[str, Any]) -> bool:
    """Whether the selectors in ``query`` choose ``held``. Raises: ValueError for a field nobody has asked for yet."""
    labels = held["metadata"].get("labels") or {}
    terms = [term.strip() for term in re.split(r",(?![^(]*\))", query.get("labelSelector", "")) if term]
    if not all(_holds(term, labels) for term in terms):
        return False
    for term in filter(None, query.get("fieldSelector", "").split(",")):
        field, _, value = term.partition("=")
        if field not in ("metadata.name", "metadata.namespace"):
            raise ValueError(f"cannot select by {field}")
        if held["metadata"].get(field.removeprefix("metadata.")) != value:
            return False
    return True


def _holds(term: str, labels: Mapping[str, str]) -> bool:
    if found := re.fullmatch(r"(\S+)\s+(in|notin)\s+\(([^)]*)\)", term):
        among = labels.get(found[1]) in [value.strip() for value in found[3].split(",")]
        return among == (found[2] == "in")
    if "!=" in term:
        key, value = term.split("!=")
        return labels.get(key) != value
    if "=" in term:
        key, value = term.replace("==", "=").split("=")
        return labels.get(key) == value
    return term[1:] not in labels if term.startswith("!") else term in labels
