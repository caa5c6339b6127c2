"""One finding for each subject, whatever number of nodes was looked at."""

from __future__ import annotations

import pytest

from duplex_es.log.findings import Finding, together

pytestmark = pytest.mark.unit


def test_what_all_nodes_agree_on_is_said_once() -> None:
    found = [Finding("eviction", "ok", "noeviction"), Finding("version", "ok", "Valkey 9")]
    assert together({"a": found, "b": found}) == found


def test_the_worst_counts_and_names_its_nodes() -> None:
    bad = [Finding("eviction", "failure", f"allkeys-{kind}", "set noeviction") for kind in ("lru", "lfu")]
    by_node = {"a": [bad[0]], "b": [Finding("eviction", "ok", "noeviction")], "c": [bad[1]]}
    (found,) = together(by_node)
    assert found == Finding("eviction", "failure", "a: allkeys-lru; c: allkeys-lfu", "set noeviction")


def test_of_nodes_that_are_well_in_their_own_way_one_is_shown() -> None:
    by_node = {"a": [Finding("memory", "ok", "1 MiB")], "b": [Finding("memory", "ok", "2 MiB")]}
    assert together(by_node) == [Finding("memory", "ok", "a: 1 MiB")]


def test_a_subject_of_one_node_only_is_kept() -> None:
    by_node = {"a": [Finding("x", "ok", "1")], "b": [Finding("nodes", "failure", "no answer", "start it")]}
    assert [finding.subject for finding in together(by_node)] == ["x", "nodes"]
