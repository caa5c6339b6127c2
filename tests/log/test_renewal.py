"""Leases are extended in one call for each partition; what is lost is named, also when nodes share the sessions."""

from __future__ import annotations

import secrets

import pytest

from duplex_es.log.followers import Followers
from duplex_es.log.redis import RedisLog
from duplex_es.log.renewal import renew
from duplex_es.testing.log_stage import LogStage
from tests.support.cluster import StoreCluster
from tests.support.processes import StoreProcess

pytestmark = pytest.mark.redis


@pytest.mark.parametrize("where", ["server", "cluster"])
async def test_the_lost_ones_of_many_leases_are_named(
    where: str, valkey: StoreProcess, request: pytest.FixtureRequest
) -> None:
    store: StoreProcess | StoreCluster = valkey if where == "server" else request.getfixturevalue("cluster")
    log, model = RedisLog.from_url(store.url), f"m-{secrets.token_hex(4)}"
    pairs = [await LogStage.claimed(log, model) for _ in range(20)]
    leases = [lease for pair in pairs for lease in pair]
    assert await renew(log.nodes, Followers(), leases, log.settings) == []
    assert await renew(log.nodes, Followers(), [], log.settings) == []
    attachment, claim = pairs[3]
    await LogStage.attached(log, attachment.ref, b"token-1", b"token-2")
    await log.release(claim)
    assert set(await renew(log.nodes, Followers(), leases, log.settings)) == {attachment, claim}
    await log.close_connections()
