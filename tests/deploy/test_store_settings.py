"""The store as deploy/redis starts it: the doctor is content, and its users can do what they are for, and no more."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import redis
from redis.exceptions import AuthenticationError, NoPermissionError

from duplex_es.log.opening import open_log
from duplex_es.tools import cli
from tests.support.processes import free_port, store_program
from tests.support.sentinel import until

pytestmark = pytest.mark.redis

FOLDER = Path(__file__).resolve().parents[2] / "deploy/redis"
WORKER, READER = "duplex-es:CHANGE-ME", "duplex-es-reader:CHANGE-ME-TOO"
ADMINISTRATOR = "user test on nopass ~* &* +@all"


@dataclass(frozen=True)
class Configured:
    """A running server of that kind."""

    kind: str
    port: int

    def url(self, user: str) -> str:
        """Where this user connects."""
        return f"redis://{user}@127.0.0.1:{self.port}/0"


@pytest.fixture(params=["valkey", "redis"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Configured]:
    """A server of each kind with ``valkey.conf`` and ``users.acl``, and one user more, who may look at everything."""
    request.getfixturevalue("valkey" if request.param == "valkey" else "redis_server")  # skips, or fails under CI
    users, port = tmp_path / "users.acl", free_port()
    users.write_text(f"{(FOLDER / 'users.acl').read_text()}{ADMINISTRATOR}\n")
    words = [str(store_program(request.param)), str(FOLDER / "valkey.conf"), "--port", str(port)]
    with (tmp_path / "log").open("wb") as log:
        words += ["--dir", str(tmp_path), "--aclfile", str(users)]
        process = subprocess.Popen(words, stdout=log, stderr=log)
    running = Configured(request.param, port)
    try:
        with redis.Redis.from_url(running.url("test:any")) as client:
            until(client.ping, "the store to answer")
        yield running
    finally:
        process.terminate()
        process.wait(timeout=60)


def test_the_doctor_is_content(store: Configured, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", "--json", "--redis-url", store.url(WORKER)]) == 0
    found = {one["subject"]: one for one in json.loads(capsys.readouterr().out)["findings"]}
    # One node has no replica, and Redis 7.0 cannot be asked what is on its disk.
    wanting = {"replication"} if store.kind == "valkey" else {"replication", "durability"}
    assert {subject for subject, one in found.items() if one["level"] != "ok"} == wanting


def test_every_setting_of_the_file_is_in_force(store: Configured) -> None:
    wanted: dict[str, str] = {}
    for line in (FOLDER / "valkey.conf").read_text().splitlines():
        name, _, value = line.partition(" ")
        if name and not name.startswith("#") and name not in ("bind", "port", "client-output-buffer-limit"):
            wanted[name] = value.strip('"')
    assert {"maxmemory-policy", "appendonly", "appendfsync", "min-replicas-to-write"} <= set(wanted)
    units = {"mb": 1024**2, "kb": 1024, "gb": 1024**3}
    with redis.Redis.from_url(store.url("test:any"), decode_responses=True) as client:
        for name, value in wanted.items():
            number = str(int(value[:-2]) * units[value[-2:]]) if value[-2:] in units else value
            assert client.config_get(name) == {name: number}
        limits = client.config_get("client-output-buffer-limit")["client-output-buffer-limit"]
        assert f"pubsub {64 * 1024**2} {16 * 1024**2} 60" in limits


async def test_a_process_opens_the_log_as_its_user_and_nobody_comes_in_without_a_name(store: Configured) -> None:
    log = open_log(store.url(WORKER))
    await log.connect()
    assert list(await log.fleet()) == []
    await log.close_connections()
    with redis.Redis(port=store.port) as nobody, pytest.raises(AuthenticationError):
        nobody.ping()


@pytest.mark.parametrize("words", [("FLUSHALL",), ("CONFIG", "GET", "dir"), ("FUNCTION", "FLUSH"), ("GET", "theirs")])
def test_a_process_may_neither_wipe_the_server_nor_look_at_others(store: Configured, words: tuple[str, ...]) -> None:
    with redis.Redis.from_url(store.url(WORKER)) as client, pytest.raises(NoPermissionError):
        client.execute_command(*words)


def test_a_reader_reads_and_writes_nothing(store: Configured, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["sessions", "--redis-url", store.url(READER)]) == 0
    assert "no sessions" in capsys.readouterr().out
    with redis.Redis.from_url(store.url(READER)) as client:
        for words in (("DEL", "dx:x"), ("XADD", "dx:x", "*", "m", "1"), ("PUBLISH", "dx:x", "1")):
            with pytest.raises(NoPermissionError):
                client.execute_command(*words)
