"""A cluster of real servers on loopback: slots, replicas, slot migrations and failovers, as an operator does them.

with start_cluster(primaries=3, replicas=1) as cluster:
    RedisLog.from_url(cluster.url)
    cluster.move_slot(slot, to)      # key by key, as redis-cli --cluster reshard does
    cluster.failover(slot)           # CLUSTER FAILOVER on a replica of the slot's primary
    cluster.primary_of(slot).kill()  # the replica takes over after the node timeout
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

import redis

from duplex_es.log import keys
from duplex_es.log.keys import SLOTS
from tests.support.processes import StoreProcess, free_port
from tests.support.sentinel import PATIENCE_S, started, until

NODE_TIMEOUT_MS = 1500
CALM_MS = 15_000
"""A node timeout for tests in which no node is lost: one that gets no processor for a moment is not taken for dead."""
MANUAL_FAILOVER_S = 10.0
"""Servers try for five seconds what CLUSTER FAILOVER asks for."""


class StoreCluster:
    """The servers of one cluster. ``nodes`` are all of them, primaries of the start first. ``url`` names them all."""

    def __init__(self, nodes: list[StoreProcess]) -> None:
        self.nodes = nodes

    @property
    def url(self) -> str:
        """``redis+cluster://`` with every node."""
        return "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)

    @staticmethod
    def ask(node: StoreProcess, *command: object) -> object:
        """One node's answer. Raises: redis.RedisError."""
        with redis.Redis(port=node.port, socket_timeout=10, decode_responses=True) as raw:
            return raw.execute_command(*command)

    def raw(self) -> redis.RedisCluster:
        """A plain client of the whole cluster. Close it."""
        return redis.RedisCluster(host="127.0.0.1", port=self.nodes[0].port)

    def node_at(self, port: int) -> StoreProcess:
        """The server that listens there."""
        return next(node for node in self.nodes if node.port == port)

    def view(self, of: StoreProcess | None = None) -> list[tuple[int, int, StoreProcess, list[StoreProcess]]]:
        """First slot, last slot, primary and replicas of each range, as ``of`` (else any that answers) sees them."""
        for node in [of] if of else self.nodes:
            try:
                found = self.ask(node, "CLUSTER", "SLOTS")
            except redis.RedisError:
                continue
            assert isinstance(found, list)
            return [
                (int(first), int(last), self.node_at(int(primary[1])), [self.node_at(int(r[1])) for r in rest])
                for first, last, primary, *rest in found
            ]
        raise AssertionError("no node answers")

    def primary_of(self, slot: int) -> StoreProcess:
        """Which server serves ``slot`` now."""
        return next(primary for first, last, primary, _ in self.view() if first <= slot <= last)

    def replicas_of(self, slot: int) -> list[StoreProcess]:
        """The replicas of the server that serves ``slot`` now."""
        return next(replicas for first, last, _, replicas in self.view() if first <= slot <= last)

    def primaries(self) -> list[StoreProcess]:
        """The servers that serve slots now, each once."""
        return list(dict.fromkeys(primary for _, _, primary, _ in self.view()))

    # -- slot migration --------------------------------------------------------------------------------------------

    def begin_move(self, slot: int, to: StoreProcess) -> None:
        """Mark ``slot`` as on its way; every key is still where it was."""
        source = self.primary_of(slot)
        self.ask(to, "CLUSTER", "SETSLOT", slot, "IMPORTING", self.id_of(source))
        self.ask(source, "CLUSTER", "SETSLOT", slot, "MIGRATING", self.id_of(to))

    def move_keys(self, slot: int, to: StoreProcess, count: int = 0, batch: int = 10) -> int:
        """Move up to ``count`` keys (0: all) of a slot that is on its way; how many went."""
        source, moved = self.primary_of(slot), 0
        while not count or moved < count:
            names = self.ask(source, "CLUSTER", "GETKEYSINSLOT", slot, min(batch, count - moved) if count else batch)
            assert isinstance(names, list)
            if not names:
                return moved
            self.ask(source, "MIGRATE", "127.0.0.1", to.port, "", 0, 5000, "KEYS", *names)
            moved += len(names)
        return moved

    def finish_move(self, slot: int, to: StoreProcess) -> None:
        """Give ``slot`` to its new server and tell all, the new one first."""
        source, name = self.primary_of(slot), self.id_of(to)
        others = [node for node in self.primaries() if node not in (to, source)]
        for node in (to, source, *others):
            self.ask(node, "CLUSTER", "SETSLOT", slot, "NODE", name)

    def move_slot(self, slot: int, to: StoreProcess, batch: int = 10) -> None:
        """Move a slot with everything in it, while clients go on."""
        self.begin_move(slot, to)
        while self.move_keys(slot, to, batch=batch):
            pass
        self.finish_move(slot, to)

    # -- failing over ----------------------------------------------------------------------------------------------

    def failover(self, slot: int, *how: str) -> StoreProcess:
        """Let a replica of the slot's primary take over (``how``: ``FORCE``, ``TAKEOVER``); returns it as primary."""
        before, successor = self.primary_of(slot), self.replicas_of(slot)[0]
        # One that has only just become a replica is not in touch with its primary yet, and says so.
        until(lambda: self.ask(successor, "CLUSTER", "FAILOVER", *how), "a failover to be accepted")
        try:
            self.wait_for_other_than(slot, before, MANUAL_FAILOVER_S)
        except AssertionError:  # a busy machine: the servers gave it up
            until(lambda: self.ask(successor, "CLUSTER", "FAILOVER", *how), "a second failover to be accepted")
            self.wait_for_other_than(slot, before)
        return self.primary_of(slot)

    def wait_for_other_than(self, slot: int, before: StoreProcess, patience_s: float = PATIENCE_S) -> None:
        """Return once all that answer agree on a primary of ``slot`` that is not ``before``."""

        def moved() -> bool:
            for node in self.nodes:
                if node is before:
                    continue
                try:
                    view = self.view(node)
                except (AssertionError, redis.RedisError):
                    continue
                owners = [primary for first, last, primary, _ in view if first <= slot <= last]
                if not owners or owners[0] is before:
                    return False
            return True

        until(moved, "another primary", patience_s)

    def wait_until_followed(self, slot: int) -> None:
        """Return once every replica has all that the slot's primary took before: what a test keeps is safe there."""
        replicas = len(self.replicas_of(slot))
        key = next(f"followed-{n}" for n in count() if keys.slot(f"followed-{n}") == slot)
        with redis.Redis(port=self.primary_of(slot).port, socket_timeout=10) as primary:
            # WAIT vouches for the asking connection's own writes, and replicas take all writes in one order.
            primary.set(key, "1", px=10_000)
            until(lambda: int(primary.wait(replicas, 1_000)) >= replicas, "the replicas to follow")

    # -- state -----------------------------------------------------------------------------------------------------

    def id_of(self, node: StoreProcess) -> str:
        """The cluster's name for a server."""
        return str(self.ask(node, "CLUSTER", "MYID"))

    def wait_until_well(self, replicas: int = 0) -> None:
        """Return once every server that answers sees all slots served, each by a primary with ``replicas``."""

        def well() -> bool:
            for node in self.nodes:
                if not node.answers():
                    continue
                if "cluster_state:ok" not in str(self.ask_text(node, "CLUSTER", "INFO")):
                    return False
                view = self.view(node)
                if sum(last - first + 1 for first, last, _, _ in view) != SLOTS:
                    return False
                if any(len(followers) < replicas for _, _, _, followers in view):
                    return False
            return True

        until(well, "the cluster to be well")

    def ask_text(self, node: StoreProcess, *command: object) -> str:
        """An answer that redis-py would take apart, as text."""
        with redis.Redis(port=node.port, socket_timeout=10) as raw:
            raw.response_callbacks.clear()
            found = raw.execute_command(*command)
        return found.decode() if isinstance(found, bytes) else str(found)

    def stop(self) -> None:
        """End every process."""
        for node in self.nodes:
            node.stop()


@contextmanager
def start_cluster(
    kind: str = "redis", *options: str, primaries: int = 3, replicas: int = 0, node_timeout_ms: int = NODE_TIMEOUT_MS
) -> Iterator[StoreCluster]:
    """A cluster whose ``primaries`` share the slots evenly, with ``replicas`` each, well at the start.

    ``options`` are given to every server. Raises: StoreUnavailable.
    """
    nodes: list[StoreProcess] = []
    cluster = StoreCluster(nodes)
    try:
        for _ in range(primaries * (1 + replicas)):
            nodes.append(
                started(
                    lambda: (
                        kind,
                        *("--cluster-enabled", "yes", "--cluster-node-timeout", str(node_timeout_ms)),
                        *("--cluster-port", str(free_port()), "--repl-diskless-sync-delay", "0", *options),
                    )
                )
            )
        leaders, followers = nodes[:primaries], nodes[primaries:]
        for n, node in enumerate(leaders):
            cluster.ask(node, "CLUSTER", "SET-CONFIG-EPOCH", n + 1)
            first, last = n * SLOTS // primaries, (n + 1) * SLOTS // primaries - 1
            cluster.ask(node, "CLUSTER", "ADDSLOTSRANGE", first, last)
        for node in nodes[1:]:
            bus = int(node.options[node.options.index("--cluster-port") + 1])
            cluster.ask(nodes[0], "CLUSTER", "MEET", "127.0.0.1", node.port, bus)
        cluster.wait_until_well()
        for n, node in enumerate(followers):
            name = cluster.id_of(leaders[n % primaries])
            until(lambda node=node, name=name: cluster.ask(node, "CLUSTER", "REPLICATE", name), "a node to be known")
        cluster.wait_until_well(replicas)
        for node in followers:
            until(lambda node=node: "master_link_status:up" in cluster.ask_text(node, "INFO", "replication"), "a copy")
        yield cluster
    finally:
        cluster.stop()
