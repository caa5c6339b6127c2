"""What the examination makes of each answer a store can give."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from redis.exceptions import NoPermissionError, ResponseError

from duplex_es.log.connections import Command, Reply
from duplex_es.log.errors import ConfigurationError, LogUnavailable
from duplex_es.log.examination import examine_through
from duplex_es.log.findings import Finding
from duplex_es.log.scripts import LIBRARY, library

pytestmark = pytest.mark.unit

FORBIDDEN = NoPermissionError("this user has no permissions")
SOUND = {
    "redis_version": "7.2.4",
    "redis_mode": "standalone",
    "role": "master",
    "connected_slaves": "1",
    "maxmemory": "1000000000",
    "maxmemory_policy": "noeviction",
    "used_memory": "5000000",
    "total_system_memory": "8000000000",
    "aof_enabled": "1",
    "aof_last_write_status": "ok",
    "loading": "0",
}
NOW_S = 1_000_000.0


class Store:
    """A store that answers what it is told to; ``trials`` is what it says to an append."""

    def __init__(self, info: dict[str, str] | None = None, **answers: Reply) -> None:
        self.info: Reply = "".join(f"{name}:{value}\r\n" for name, value in (SOUND | (info or {})).items()).encode()
        self.fsync: Reply = answers.get("fsync", [b"appendfsync", b"everysec"])
        self.least: Reply = answers.get("least", {b"min-replicas-to-write": b"1"})
        self.functions: Reply = answers.get(
            "functions", [{b"library_name": LIBRARY, b"library_code": library().encode()}]
        )
        self.time: Reply = answers.get("time", [b"1000000", b"0"])
        self.trials: Reply | None = answers.get("trials")
        self.wrote: list[Command] = []

    async def exchange(self, commands: Sequence[Command]) -> list[Reply]:
        """Answer one pipeline."""
        return [self._answer(command) for command in commands]

    def _answer(self, command: Command) -> Reply:
        match [str(word) for word in command[:3]]:
            case ["INFO"]:
                return self.info
            case ["CONFIG", "GET", "appendfsync"]:
                return self.fsync
            case ["CONFIG", "GET", "min-replicas-to-write"]:
                return self.least
            case ["FUNCTION", *_]:
                return self.functions
            case ["TIME"]:
                return self.time
        self.wrote.append(command)
        if isinstance(self.trials, LogUnavailable):
            raise self.trials
        return self.trials or b"OK"


async def findings(store: Store, tick_s: float = 0.0, here_s: float = NOW_S) -> dict[str, Finding]:
    """By subject. Each look at the clock takes ``tick_s``."""
    ticks: Callable[[], float] = iter(tick_s * n for n in range(1000)).__next__
    found = await examine_through(store.exchange, wall_s=lambda: here_s, clock_s=ticks)
    return {finding.subject: finding for finding in found}


async def test_a_sound_store_is_well_in_every_respect() -> None:
    store = Store()
    found = await findings(store)
    assert {finding.level for finding in found.values()} == {"ok"}
    assert not any(finding.advice for finding in found.values())
    assert set(found) == {
        *("version", "topology", "eviction", "memory", "persistence", "replication", "durability", "clock"),
        *("functions", "append"),
    }
    assert store.wrote[-1][0] == "DEL", "nothing is left behind"


@pytest.mark.parametrize(
    ("subject", "level", "info", "advice"),
    [
        ("version", "failure", {"redis_version": "6.2.14"}, "7.0"),
        ("topology", "failure", {"cluster_enabled": "1"}, "redis+cluster://"),
        ("eviction", "failure", {"maxmemory_policy": "allkeys-lru"}, "noeviction"),
        ("eviction", "warning", {"maxmemory_policy": "allkeys-lru", "maxmemory": "0"}, "noeviction"),
        ("memory", "warning", {"used_memory": "800000000"}, "maxmemory"),
        ("memory", "failure", {"used_memory": "950000000"}, "maxmemory"),
        ("memory", "failure", {"used_memory": "7900000000", "maxmemory": "0"}, "maxmemory"),
        ("persistence", "failure", {"loading": "1"}, "wait"),
        ("persistence", "warning", {"aof_enabled": "0"}, "appendonly yes"),
        ("persistence", "failure", {"aof_last_write_status": "err"}, "disk"),
        ("replication", "warning", {"connected_slaves": "0"}, "add a replica"),
        ("replication", "failure", {"role": "slave", "master_host": "a", "master_port": "1"}, "primary's URL"),
    ],
)
async def test_what_info_says_is_judged(subject: str, level: str, info: dict[str, str], advice: str) -> None:
    found = await findings(Store(info))
    assert found[subject].level == level
    assert advice in found[subject].advice
    assert {name for name, finding in found.items() if finding.level != "ok"} == {subject}


async def test_valkey_is_named_by_its_own_version() -> None:
    assert (await findings(Store({"valkey_version": "9.1.0"})))["version"].found == "Valkey 9.1.0"


@pytest.mark.parametrize("fsync", [[b"appendfsync", b"no"], {b"appendfsync": b"no"}])
async def test_a_file_that_is_never_synced_is_a_warning(fsync: Reply) -> None:
    assert (await findings(Store(fsync=fsync)))["persistence"].level == "warning"


async def test_a_primary_that_writes_without_replicas_is_a_warning() -> None:
    assert (
        "min-replicas-to-write 1"
        in (await findings(Store(least=[b"min-replicas-to-write", b"0"])))["replication"].advice
    )


async def test_forbidden_settings_are_unknown_and_no_fault() -> None:
    found = await findings(Store(fsync=FORBIDDEN, least=FORBIDDEN))
    assert found["persistence"].level == "ok"
    assert "unknown" in found["persistence"].found


async def test_a_replica_is_not_written_to() -> None:
    store = Store({"role": "slave"})
    assert "append" not in await findings(store)
    assert store.wrote == []


@pytest.mark.parametrize(("here_s", "level"), [(NOW_S + 0.9, "ok"), (NOW_S + 1.5, "warning"), (NOW_S - 1.5, "warning")])
async def test_clocks_that_disagree_are_a_warning(here_s: float, level: str) -> None:
    assert (await findings(Store(), here_s=here_s))["clock"].level == level


@pytest.mark.parametrize(
    ("functions", "level", "found"),
    [
        ([], "ok", "not there yet"),
        ([[b"library_code", b"#!lua name=dx1\nsomething else"]], "warning", "another build"),
        (FORBIDDEN, "warning", "permissions"),
    ],
)
async def test_the_function_library_is_compared(functions: Reply, level: str, found: str) -> None:
    finding = (await findings(Store(functions=functions)))["functions"]
    assert (finding.level, found in finding.found) == (level, True)


@pytest.mark.parametrize(("tick_s", "level"), [(0.001, "ok"), (0.010, "warning"), (0.080, "failure")])
async def test_slow_appends_are_told(tick_s: float, level: str) -> None:
    assert (await findings(Store(), tick_s=tick_s))["append"].level == level


@pytest.mark.parametrize("trials", [ResponseError("OOM command not allowed"), LogUnavailable("no answer")])
async def test_a_store_that_takes_no_appends_fails(trials: Reply) -> None:
    assert (await findings(Store(trials=trials)))["append"].level == "failure"


async def test_without_info_nothing_is_said() -> None:
    store = Store()
    store.info = FORBIDDEN
    with pytest.raises(ConfigurationError, match="INFO"):
        await findings(store)


@pytest.mark.parametrize(
    ("info", "level", "told"),
    [
        ({}, "ok", "the disk"),
        ({"aof_enabled": "0"}, "ok", "one replica"),
        ({"aof_enabled": "0", "connected_slaves": "0"}, "warning", "appendonly yes"),
        ({"redis_version": "7.0.15", "connected_slaves": "0"}, "warning", "add a replica"),
    ],
)
async def test_who_could_vouch_for_what_was_written_is_said(info: dict[str, str], level: str, told: str) -> None:
    found = (await findings(Store(info)))["durability"]
    assert found.level == level
    assert told in found.found + found.advice
