"""Deployments that the end-to-end tests share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.support.processes import StoreProcess, start_store
from tests.support.services import Deployment
from workers.models.scripted.profiles import PROFILES


@pytest.fixture(scope="session")
def cascade(valkey: StoreProcess) -> Iterator[Deployment]:
    """One gateway and one worker that really converse."""
    with Deployment(valkey.url, model="cascade") as deployment:
        yield deployment


@pytest.fixture(scope="session")
def pair() -> Iterator[Deployment]:
    """Two gateways and one echoing worker over a store of their own: no other test's callers wait for the worker."""
    store = start_store("valkey")
    try:
        with Deployment(store.url, gateways=2, model="echo", options=("--slots", "64")) as deployment:
            yield deployment
    finally:
        store.stop()


@pytest.fixture(scope="session")
def scripted(valkey: StoreProcess) -> Iterator[Deployment]:
    """Two gateways and one worker that plays the script each session brings along."""
    with Deployment(valkey.url, gateways=2, model="scripted", options=("--slots", "64")) as deployment:
        yield deployment


@pytest.fixture(scope="session")
def profiled(scripted: Deployment) -> Iterator[Deployment]:
    """The same, and a worker for each published model that ``scripted`` can look like; they answer to its name."""
    with ExitStack() as workers:
        for profile in PROFILES:
            options = ("--slots", "16", "--model-option", f"profile={profile}")
            workers.enter_context(Deployment(scripted.redis_url, gateways=0, model="scripted", options=options))
        yield scripted
