"""The Redis log keeps the promises of the contract on real servers: the wheel's Valkey, the machine's Redis."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from duplex_es.testing.log_suite import RacingLogSuite
from tests.support.log_backends import OnServer
from tests.support.processes import StoreProcess

pytestmark = pytest.mark.redis


class TestValkey(OnServer, RacingLogSuite):
    @pytest.fixture(autouse=True)
    def one_store(self, valkey: StoreProcess) -> Iterator[None]:
        yield from self.use_store(valkey)


class TestRedis7(OnServer, RacingLogSuite):
    @pytest.fixture(autouse=True)
    def one_store(self, redis_server: StoreProcess) -> Iterator[None]:
        yield from self.use_store(redis_server)
