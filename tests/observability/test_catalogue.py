"""Names that Prometheus's own linter accepts, and labels that no client can choose."""

from __future__ import annotations

import re

import pytest

from duplex_es.observability.catalogue import FAMILIES, Counter, Family, Histogram

pytestmark = pytest.mark.unit

BOUNDED = {
    *("component", "version", "python", "stream", "op", "purpose", "kind", "model", "code", "cause", "outcome"),
    *("direction", "how", "state", "status"),
}


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_a_family_is_named_for_its_kind_and_has_few_labels(family: Family) -> None:
    assert re.fullmatch(r"duplex_[a-z_]+", family.name)
    assert family.name.endswith("_total") == isinstance(family, Counter)
    assert family.name.endswith("_seconds") or not isinstance(family, Histogram)
    assert set(family.labels) <= BOUNDED and len(family.labels) <= 3
    assert family.text and not family.text.endswith(".")
    if isinstance(family, Histogram):
        assert list(family.buckets) == sorted(set(family.buckets))


def test_no_two_families_have_a_name() -> None:
    names = [family.name.removesuffix("_total") for family in FAMILIES]
    assert len(names) == len(set(names))
