"""The doctor at the bedside of real servers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import pytest
import redis

from duplex_es.log.opening import open_log
from duplex_es.log.scripts import LIBRARY
from duplex_es.tools import cli
from tests.support.cluster import StoreCluster
from tests.support.processes import StoreProcess, free_port, start_store
from tests.support.sentinel import start_sentinel, until

pytestmark = pytest.mark.redis


@pytest.fixture(params=["valkey", "redis"])
def store(request: pytest.FixtureRequest) -> Iterator[StoreProcess]:
    """A server of its own, of either kind, with an append-only file."""
    name = "valkey" if request.param == "valkey" else "redis_server"
    request.getfixturevalue(name)  # skips, or fails under CI, where the kind is not installed
    store = start_store(request.param, "--appendonly", "yes", "--appendfsync", "everysec")
    try:
        yield store
    finally:
        store.stop()


def examined(url: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, dict[str, str]]]:
    """The exit code and the findings by subject."""
    code = cli.main(["doctor", "--json", "--redis-url", url])
    told = json.loads(capsys.readouterr().out)
    assert told["fit"] == (code == 0)
    return code, {finding["subject"]: finding for finding in told["findings"]}


def test_a_new_store_is_fit_but_for_a_replica(store: StoreProcess, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = examined(store.url, capsys)
    assert code == 0
    # Redis 7.0 cannot be asked what is on its disk.
    wanting = {"replication"} if store.kind == "valkey" else {"replication", "durability"}
    assert {subject for subject, finding in found.items() if finding["level"] != "ok"} == wanting
    assert found["version"]["found"].startswith("Valkey" if store.kind == "valkey" else "Redis 7")
    assert "everysec" in found["persistence"]["found"]
    with redis.Redis.from_url(store.url) as client:
        assert client.dbsize() == 0, "nothing is left behind"


async def load_library(url: str) -> None:
    """What the start of any process does to a store."""
    log = open_log(url)
    await log.connect()
    await log.close_connections()


def test_the_library_of_a_running_service_is_recognised(
    store: StoreProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    asyncio.run(load_library(store.url))
    _, found = examined(store.url, capsys)
    assert found["functions"]["found"] == f"library {LIBRARY} of this build"
    other = f"#!lua name={LIBRARY}\nredis.register_function('{LIBRARY}_head', function() return 1 end)"
    with redis.Redis.from_url(store.url) as client:
        client.function_load(other, replace=True)
    _, found = examined(store.url, capsys)
    assert (found["functions"]["level"], "another build" in found["functions"]["found"]) == ("warning", True)


def test_a_store_that_evicts_fails_with_the_setting_to_change(
    store: StoreProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    with redis.Redis.from_url(store.url) as client:
        client.config_set("maxmemory", "50mb")
        client.config_set("maxmemory-policy", "allkeys-lru")
        client.config_set("appendonly", "no")
    assert cli.main(["doctor", "--redis-url", store.url]) == 1
    text = capsys.readouterr().out
    assert "FAIL  eviction" in text
    assert "-> set maxmemory-policy noeviction" in text
    assert "-> set appendonly yes" in text
    assert text.splitlines()[-1].startswith("  not fit: 1 failed")


def test_a_full_store_fails_by_memory_and_by_append(store: StoreProcess, capsys: pytest.CaptureFixture[str]) -> None:
    with redis.Redis.from_url(store.url) as client:
        client.config_set("maxmemory", "1mb")
        code, found = examined(store.url, capsys)
    assert code == 1
    assert (found["memory"]["level"], found["append"]["level"]) == ("failure", "failure")


def test_a_replica_is_sent_away_to_its_primary(store: StoreProcess, capsys: pytest.CaptureFixture[str]) -> None:
    replica = start_store(store.kind, "--replicaof", "127.0.0.1", str(store.port))
    try:
        code, found = examined(replica.url, capsys)
        assert code == 1
        assert found["replication"]["found"] == f"a replica of 127.0.0.1:{store.port}"
    finally:
        replica.stop()


def test_a_store_that_is_not_there_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", "--redis-url", f"redis://127.0.0.1:{free_port()}/0"]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert "does not answer" in told.err
    assert told.err.count("\n") == 1


def test_a_service_behind_sentinels_is_examined_with_them(
    redis_server: StoreProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    with start_sentinel(redis_server.kind, "--appendonly", "yes", sentinels=3) as stack:
        code, found = examined(stack.url, capsys)
        assert code == 0
        assert (found["sentinels"]["level"], found["takeover"]["level"]) == ("ok", "ok")
        assert "1 replica" in found["replication"]["found"]
        for sentinel in stack.sentinels[1:]:
            sentinel.stop()
        until(lambda: examined(stack.url, capsys)[0] == 1, "the last sentinel to miss the others")
        _, found = examined(stack.url, capsys)
        assert "NOQUORUM" in found["sentinels"]["found"]
        with stack.raw() as client:
            assert client.dbsize() == 0, "nothing is left behind"


def test_a_cluster_is_examined_node_by_node(cluster: StoreCluster, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = examined(cluster.url, capsys)
    assert code == 0
    assert "3 primaries serve 16384 of 16384" in found["slots"]["found"]
    assert (found["spares"]["level"], found["migration"]["level"]) == ("warning", "ok")
    cluster.ask(cluster.nodes[1], "CONFIG", "SET", "maxmemory-policy", "allkeys-lru", "maxmemory", "100mb")
    try:
        code, found = examined(cluster.url, capsys)
    finally:
        cluster.ask(cluster.nodes[1], "CONFIG", "SET", "maxmemory-policy", "noeviction", "maxmemory", "0")
    assert code == 1
    assert str(cluster.nodes[1].port) in found["eviction"]["found"]
    assert not any(str(node.port) in found["eviction"]["found"] for node in (cluster.nodes[0], cluster.nodes[2]))


def test_a_node_of_a_cluster_is_not_taken_for_a_whole_store(
    cluster: StoreCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = examined(cluster.nodes[0].url, capsys)
    assert (code, found["topology"]["level"]) == (1, "failure")
    assert "redis+cluster://" in found["topology"]["advice"]


@pytest.mark.parametrize("scheme", ["redis+sentinel", "redis+cluster"])
def test_what_does_not_answer_is_told(scheme: str, capsys: pytest.CaptureFixture[str]) -> None:
    tail = "/duplex" if scheme == "redis+sentinel" else ""
    assert cli.main(["doctor", "--redis-url", f"{scheme}://127.0.0.1:{free_port()}{tail}"]) == 1
    assert "answer" in capsys.readouterr().err
