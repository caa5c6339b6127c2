"""The Redis log keeps the promises where there is more than one node: behind sentinels, and on a cluster."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from duplex_es.testing.log_suite import RacingLogSuite
from tests.support.cluster import StoreCluster
from tests.support.log_backends import OnServer
from tests.support.processes import StoreProcess
from tests.support.sentinel import CALM_MS, start_sentinel

pytestmark = pytest.mark.redis


class TestSentinel(OnServer, RacingLogSuite):
    programs = 8

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def one_store(cls, redis_server: StoreProcess) -> Iterator[None]:  # skips where there is no server
        with start_sentinel(redis_server.kind, down_after_ms=CALM_MS) as stack, stack.raw() as raw:
            cls.url, cls.raw = stack.url, raw
            yield


class TestCluster(OnServer, RacingLogSuite):
    programs = 8

    @pytest.fixture(autouse=True)
    def one_store(self, cluster: StoreCluster) -> Iterator[None]:
        self.url, self.raw = cluster.url, redis.RedisCluster(host="127.0.0.1", port=cluster.nodes[0].port)
        yield
        self.raw.close()
