"""From URLs to logs."""

from __future__ import annotations

import pytest

from duplex_es.log.memory import MemoryLog
from duplex_es.log.opening import open_log
from duplex_es.log.redis import RedisLog
from duplex_es.log.settings import LogSettings

pytestmark = pytest.mark.unit


def test_memory_is_a_store_of_its_own() -> None:
    settings = LogSettings(lease_s=3.0)
    log = open_log("memory://", settings)
    assert isinstance(log, MemoryLog)
    assert log.settings is settings
    assert open_log("memory://") is not log


@pytest.mark.parametrize("url", ["redis://127.0.0.1:1/0", "rediss://user:secret@127.0.0.1:1", "unix:///tmp/none.sock"])
def test_redis_is_not_connected_before_it_is_used(url: str) -> None:
    assert isinstance(open_log(url), RedisLog)


@pytest.mark.parametrize("url", ["http://127.0.0.1", "", "127.0.0.1:6379"])
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(ValueError):
        open_log(url)
