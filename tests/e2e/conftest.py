"""Deployments that the end-to-end tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.processes import StoreProcess
from tests.support.services import Deployment


@pytest.fixture(scope="session")
def cascade(valkey: StoreProcess) -> Iterator[Deployment]:
    """One gateway and one worker that really converse."""
    with Deployment(valkey.url, model="cascade") as deployment:
        yield deployment


@pytest.fixture(scope="session")
def pair(valkey: StoreProcess) -> Iterator[Deployment]:
    """Two gateways and one echoing worker over one store."""
    with Deployment(valkey.url, gateways=2, model="echo") as deployment:
        yield deployment


@pytest.fixture(scope="session")
def scripted(valkey: StoreProcess) -> Iterator[Deployment]:
    """Two gateways and one worker that plays the script each session brings along."""
    with Deployment(valkey.url, gateways=2, model="scripted", options=("--slots", "64")) as deployment:
        yield deployment
