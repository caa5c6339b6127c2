"""The short form of ``make rollout``: few callers talk while gateways and workers are replaced behind each balancer."""

from __future__ import annotations

import shutil

import pytest

from tests.rollout.rolling import roll
from tests.rollout.site import Site
from tests.support.hosts import NAMESPACES, Hosts
from tests.support.processes import StoreProcess

pytestmark = [pytest.mark.rollout, pytest.mark.timeout(300)]


@pytest.mark.parametrize("balancer", ["haproxy", "nginx"])
async def test_a_rolling_restart_loses_nothing_and_repeats_nothing(balancer: str, valkey: StoreProcess) -> None:
    assert shutil.which(balancer), f"{balancer} is needed: apt-get install {balancer}"
    async with Site(balancer=balancer, gateways=2, workers=2) as site:
        outcome = await roll(site, sessions=6, calm_s=2.0)
        assert outcome.faults == [], site.words
    assert (outcome.sessions, outcome.lost, outcome.repeated) == (6, 0, 0)
    assert outcome.resumes >= 6, "every caller lost its gateway at least once"
    assert {step.name for step in outcome.steps} == {"calm", "gateway-1", "gateway-2", "worker-1", "worker-2"}


def test_hosts_are_gone_afterwards() -> None:
    with Hosts() as hosts:
        first, second = hosts.address("one"), hosts.address("two")
        assert first != second and hosts.address("one") == first
        ran_where = hosts.command("one", ["true"])
        assert ran_where[-1] == "true" and (hosts.kind == NAMESPACES) == (ran_where[0] == "ip")
    with Hosts(namespaces=False) as hosts:
        assert hosts.address("one").startswith("127.")
        assert hosts.command("one", ["true"]) == ["true"]
