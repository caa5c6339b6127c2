"""A primary, its replicas and the sentinels that watch them, as real processes on loopback.

with start_sentinel() as stack:
    RedisLog.from_url(stack.url)
    stack.failover()          # as an operator would: the old primary lives on as a replica
    stack.primary.kill()      # as fate would: the sentinels find out
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import redis

from tests.support.processes import StoreProcess, free_port, store_program

PATIENCE_S = 60.0
CALM_MS = 10_000
"""For ``down_after_ms`` where no server is lost: one that gets no processor for a moment is not taken for dead."""
FAILOVER_S = 15.0
"""Longer than a sentinel tries, which is ``failover-timeout`` for each of its steps."""
SERVICE = "duplex"
ATTEMPTS = 4


def until(asked: Callable[[], object], what: str, patience_s: float = PATIENCE_S) -> None:
    """Return once ``asked`` is true; a server that does not answer yet is not. Raises: AssertionError in time."""
    deadline = time.monotonic() + patience_s
    while True:
        try:
            if asked():
                return
        except redis.RedisError:
            pass
        assert time.monotonic() < deadline, f"still waiting for {what} after {patience_s} s"
        time.sleep(0.05)


def started(options: Callable[[], tuple[str, ...]]) -> StoreProcess:
    """A running store of that kind, with those options. A port that somebody took meanwhile is replaced.

    Raises: StoreUnavailable.
    """
    store_program(options()[0])
    for attempt in range(ATTEMPTS):
        store = StoreProcess(*options())
        try:
            store.start()
        except BaseException as failure:
            store.stop()
            if attempt + 1 < ATTEMPTS and isinstance(failure, RuntimeError):
                continue
            raise
        return store
    raise AssertionError("unreachable")


class SentinelProcess:
    """One sentinel that watches ``primary`` under the name ``duplex``."""

    def __init__(self, kind: str, primary: StoreProcess, quorum: int, down_after_ms: int) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="duplex-es-sentinel-"))
        for _ in range(ATTEMPTS):
            self.port = free_port()
            settings = self.directory / f"sentinel-{self.port}.conf"
            settings.write_text(
                f"port {self.port}\nbind 127.0.0.1\ndir {self.directory}\n"
                f"sentinel monitor {SERVICE} 127.0.0.1 {primary.port} {quorum}\n"
                f"sentinel down-after-milliseconds {SERVICE} {down_after_ms}\n"
                f"sentinel failover-timeout {SERVICE} 4000\n"
                f"sentinel parallel-syncs {SERVICE} 1\n"
            )
            with (self.directory / "sentinel.log").open("ab") as output:
                self._process = subprocess.Popen(
                    [str(store_program(kind)), str(settings), "--sentinel"],
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
            until(lambda: self._process.poll() is not None or self.ask("PING"), "a sentinel")
            if self._process.poll() is None:
                return  # else somebody took its port meanwhile
        raise RuntimeError((self.directory / "sentinel.log").read_text()[-2000:])

    def ask(self, *command: object) -> object:
        """The answer to one command. Raises: redis.RedisError."""
        with redis.Redis(port=self.port, socket_timeout=2, decode_responses=True) as raw:
            return raw.execute_command(*command)

    def freeze(self) -> None:
        """Stop the process where it is."""
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let a frozen process go on."""
        self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """End the process and remove its directory. Idempotent."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGCONT)
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)


class SentinelStack:
    """Stores, the first of which starts as the primary, and sentinels. ``url`` is what a log is given."""

    def __init__(self, stores: list[StoreProcess], sentinels: list[SentinelProcess]) -> None:
        self.stores = stores
        self.sentinels = sentinels

    @property
    def url(self) -> str:
        """``redis+sentinel://`` with every sentinel."""
        hosts = ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in self.sentinels)
        return f"redis+sentinel://{hosts}/{SERVICE}/0"

    @property
    def primary(self) -> StoreProcess:
        """The store that the first sentinel calls the primary. Raises: redis.RedisError."""
        _, port = self.sentinels[0].ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE)
        return next(store for store in self.stores if store.port == int(port))

    @property
    def replicas(self) -> list[StoreProcess]:
        """All stores but the primary."""
        primary = self.primary
        return [store for store in self.stores if store is not primary]

    def raw(self, store: StoreProcess | None = None) -> redis.Redis:
        """A plain client to ``store``, else to the present primary."""
        return redis.Redis.from_url((store or self.primary).url)

    def failover(self) -> StoreProcess:
        """Let a replica take over while the primary lives; returns the new primary once all sentinels name it."""
        before = self.primary
        for patience_s in (FAILOVER_S, PATIENCE_S):
            until(lambda: self.sentinels[0].ask("SENTINEL", "FAILOVER", SERVICE) or True, "a failover to be accepted")
            try:
                self.wait_for_other_than(before, patience_s)
            except AssertionError:  # a busy machine: the sentinels gave it up; the second time it has to work
                if patience_s == PATIENCE_S:
                    raise
            else:
                break
        return self.primary

    def wait_until_followed(self) -> None:
        """Return once every replica has all that the primary took before; what a test does not mean to lose is safe."""
        replicas = len(self.replicas)
        with self.raw() as primary:
            # WAIT vouches for the asking connection's own writes, and replicas take all writes in one order.
            primary.set("followed", "1", px=10_000)
            until(lambda: int(primary.wait(replicas, 1_000)) >= replicas, "the replicas to follow")

    def wait_for_other_than(self, before: StoreProcess, patience_s: float = PATIENCE_S) -> None:
        """Return once every sentinel names a primary that is not ``before``."""

        def moved() -> bool:
            asked = (one.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE) for one in self.sentinels)
            return all(int(port) != before.port for _, port in asked)

        until(moved, "another primary", patience_s)

    def wait_until_well(self) -> None:
        """Return once every sentinel knows all others and all replicas, and these follow."""

        def well() -> bool:
            for sentinel in self.sentinels:
                fields = _pairs(sentinel.ask("SENTINEL", "MASTER", SERVICE))
                if int(fields["num-slaves"]) < len(self.stores) - 1 or fields["flags"] != "master":
                    return False
                if int(fields["num-other-sentinels"]) < len(self.sentinels) - 1:
                    return False
            with self.raw() as raw:
                states = raw.info("replication")
            return all(states.get(f"slave{n}", {}).get("state") == "online" for n in range(len(self.stores) - 1))

        until(well, "replicas and sentinels to find each other")

    def stop(self) -> None:
        """End every process."""
        for process in (*self.sentinels, *self.stores):
            process.stop()


@contextmanager
def start_sentinel(
    kind: str = "redis",
    *options: str,
    replicas: int = 1,
    sentinels: int = 1,
    down_after_ms: int = 1000,
    primary_options: tuple[str, ...] = (),
) -> Iterator[SentinelStack]:
    """A primary with ``replicas``, watched by ``sentinels`` (a majority of which decides), all well at the start.

    ``options`` are given to every store, ``primary_options`` to the first one only. Raises: StoreUnavailable.
    """
    quickly = (kind, "--repl-diskless-sync-delay", "0", *options)
    stores = [started(lambda: (*quickly, *primary_options))]
    watching: list[SentinelProcess] = []
    try:
        for _ in range(replicas):
            stores.append(started(lambda: (*quickly, "--replicaof", "127.0.0.1", str(stores[0].port))))
        quorum = sentinels // 2 + 1
        for _ in range(sentinels):
            watching.append(SentinelProcess(kind, stores[0], quorum, down_after_ms))
        stack = SentinelStack(stores, watching)
        stack.wait_until_well()
        yield stack
    finally:
        SentinelStack(stores, watching).stop()


def _pairs(reply: object) -> dict[str, str]:
    if isinstance(reply, dict):
        return reply
    assert isinstance(reply, list)
    return dict(zip(reply[::2], reply[1::2], strict=True))
