"""The whole service as processes that a test may kill, freeze and cut off, and bring back."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import redis
import redis.asyncio

from tests.support.cluster import StoreCluster, start_cluster
from tests.support.processes import StoreProcess, start_store
from tests.support.sentinel import SentinelStack, start_sentinel, until
from tests.support.services import Deployment, Service
from tests.support.tcp_proxy import TcpProxy

# A rewrite would move what a row tears off to another file.
AOF = ("--appendonly", "yes", "--appendfsync", "everysec", "--auto-aof-rewrite-percentage", "0")


@dataclass(frozen=True, slots=True)
class Scene:
    """What a fleet is made of: rows with equal scenes can share one.

    ``store`` is ``single`` (one node), ``sentinel`` (a primary, a replica and a sentinel) or ``cluster`` (three
    primaries, each with a replica). ``far`` names what reaches a single node over a ``link`` of its own: ``gateway``
    each gateway, ``worker`` each worker. ``options`` are the model's, each ``KEY=VALUE``; each worker has ``slots``.
    """

    far: str = ""
    store: str = "single"
    model: str = "echo"
    options: tuple[str, ...] = ()
    slots: int = 16
    gateway_options: tuple[str, ...] = ("--drain-s", "2.5")


class FaultProxy(TcpProxy):
    """A link to the store that can be cut, made deaf one way, or held up both ways as by a partition."""

    def __init__(self, port: int) -> None:
        super().__init__("127.0.0.1", port)
        self._deaf_through = 0
        self._flows = asyncio.Event()
        self._flows.set()

    def cut(self) -> None:
        """End every connection; new ones are accepted."""
        for pump in list(self._pumps):
            pump.cancel()

    def deafen(self) -> None:
        """Swallow, for ever, what the server says on the connections there are; new ones are sound."""
        self._deaf_through = self.connections

    def part(self) -> None:
        """Hold everything in both directions, new connections included."""
        self._flows.clear()

    def join(self) -> None:
        """Let go on what was held."""
        self._flows.set()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, answers: bool) -> None:
        number = self.connections
        with suppress(OSError):
            try:
                while data := await reader.read(65_536):
                    if answers and number <= self._deaf_through:
                        continue
                    if answers and self.delay_s:
                        await asyncio.sleep(self.delay_s)
                    await self._flows.wait()
                    writer.write(data)
                    await writer.drain()
            finally:
                writer.close()


PLAIN = Scene()


class Fleet:
    """Two gateways and two workers over a store that keeps an append-only file. ``async with`` it.

    ``urls`` are those of the gateways, in the order of ``gateways``; ``url`` is where the store is.
    """

    def __init__(self, scene: Scene = PLAIN, *, store_kind: str = "valkey") -> None:
        self.scene = scene
        self.url = ""
        self._store_kind = store_kind
        self._store: StoreProcess | None = None
        self._sentinel: SentinelStack | None = None
        self._cluster: StoreCluster | None = None
        self._stores = ExitStack()
        self._links: dict[Service, FaultProxy] = {}
        options = ("--slots", str(scene.slots), *(part for one in scene.options for part in ("--model-option", one)))
        self._deployment = Deployment("", model=scene.model, options=options, gateway_options=scene.gateway_options)
        self._gone: list[Service] = []

    @property
    def store(self) -> StoreProcess:
        """The one node. Raises: RuntimeError in a scene that has several."""
        if self._store is None:
            raise RuntimeError(f"the store is {self.scene.store}")
        return self._store

    @property
    def sentinel(self) -> SentinelStack:
        """The primary, its replica and who watches them. Raises: RuntimeError in another scene."""
        if self._sentinel is None:
            raise RuntimeError(f"the store is {self.scene.store}")
        return self._sentinel

    @property
    def cluster(self) -> StoreCluster:
        """The nodes of the cluster. Raises: RuntimeError in another scene."""
        if self._cluster is None:
            raise RuntimeError(f"the store is {self.scene.store}")
        return self._cluster

    @property
    def gateways(self) -> list[Service]:
        """The gateway processes, in the order of ``urls``."""
        return self._deployment.gateways

    @property
    def workers(self) -> list[Service]:
        """The worker processes."""
        return self._deployment.workers

    @property
    def urls(self) -> list[str]:
        """Where the gateways are; one list for ever."""
        return self._deployment.urls

    async def __aenter__(self) -> Fleet:
        try:
            await asyncio.to_thread(self._start_store)
            for kind in ("gateway", "worker"):
                for _ in range(2):
                    await self._add(kind)
            await self._ready(*self.gateways, *self.workers)
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *error: object) -> None:
        for service in (*self.gateways, *self.workers, *self._gone):
            self.thaw(service)
            if service.process.poll() is None:
                service.process.kill()
        await asyncio.to_thread(self._deployment.stop)
        for service in self._gone:
            await asyncio.to_thread(service.stop)
        for link in self._links.values():
            link.join()
            await link.stop()
        await asyncio.to_thread(self._stores.close)

    def _start_store(self) -> None:
        kind = self._store_kind
        if self.scene.store == "sentinel":
            self._sentinel = self._stores.enter_context(start_sentinel(kind, *AOF))
            self.url = self._sentinel.url
            _wait_for_copies(self._sentinel.stores)
        elif self.scene.store == "cluster":
            self._cluster = self._stores.enter_context(start_cluster(kind, *AOF, primaries=3, replicas=1))
            self.url = self._cluster.url
        else:
            self._store = start_store(kind, *AOF)
            self._stores.callback(self._store.stop)
            self.url = self._store.url

    # -- faults ----------------------------------------------------------------------------------------------------

    async def kill(self, *services: Service) -> None:
        """End processes at once, without a goodbye, and return when they are gone."""
        for service in services:
            service.process.kill()
        for service in services:
            await asyncio.to_thread(service.process.wait)

    def freeze(self, service: Service) -> None:
        """Stop a process where it is."""
        service.process.send_signal(signal.SIGSTOP)

    def thaw(self, service: Service) -> None:
        """Let it go on. Harmless for one that is not frozen."""
        if service.process.poll() is None:
            service.process.send_signal(signal.SIGCONT)

    def drain(self, service: Service) -> None:
        """Ask a process to end as a deploy does."""
        service.process.terminate()

    def link(self, service: Service) -> FaultProxy:
        """What a far process reaches the store over. Raises: KeyError for one that is not far."""
        return self._links[service]

    def worker_name(self, service: Service) -> str:
        """The name a worker claims under."""
        arguments = list(service.process.args)  # type: ignore[arg-type]
        return str(arguments[arguments.index("--name") + 1])

    async def command(self, *words: object) -> object:
        """Run one command on the single node itself."""
        return await self.ask(self.store, *words)

    @staticmethod
    async def ask(node: StoreProcess, *words: object) -> object:
        """Run one command on this node."""
        client = redis.asyncio.Redis.from_url(node.url)
        try:
            return await client.execute_command(*words)  # type: ignore[no-untyped-call]
        finally:
            await client.aclose()

    def aof_bytes(self) -> int:
        """How long the single node's append-only file is now."""
        (tail,) = self.store.directory.glob("appendonlydir/*.incr.aof")
        return tail.stat().st_size

    async def restart_store(self, *, kindly: bool, torn_bytes: int = 0, empty: bool = False) -> None:
        """End the store, by SIGTERM or SIGKILL, and start it again on the same port and files.

        ``torn_bytes`` are cut off the end of its append-only file before it starts; ``empty`` removes it.
        """
        if kindly:
            os.kill(self.store.pid, signal.SIGTERM)
            while self.store.answers():
                await asyncio.sleep(0.02)
            await asyncio.sleep(0.3)
        await asyncio.to_thread(self.store.kill)
        if empty:
            await asyncio.to_thread(shutil.rmtree, self.store.directory / "appendonlydir")
        if torn_bytes:
            (tail,) = self.store.directory.glob("appendonlydir/*.incr.aof")
            os.truncate(tail, max(0, tail.stat().st_size - torn_bytes))
        await asyncio.to_thread(self.store.start)

    # -- repair ----------------------------------------------------------------------------------------------------

    async def replace(self, service: Service) -> Service:
        """Start another process like ``service`` and return once it is ready; the old one goes on living."""
        (new,) = await self._ready(await self._add("gateway" if service in self.gateways else "worker"))
        return new

    def forget(self, service: Service) -> None:
        """Take a dead or dying process off the lists."""
        if service in self.gateways:
            at = self.gateways.index(service)
            del self.gateways[at], self.urls[at]
        else:
            self.workers.remove(service)
        self._gone.append(service)

    async def mend(self) -> None:
        """Make everything whole again: links, frozen processes, dead ones replaced, two of each, everybody ready."""
        for link in self._links.values():
            link.join()
            link.delay_s = 0.0
        await asyncio.to_thread(self._mend_store)
        for service in (*self.gateways, *self.workers):
            self.thaw(service)
        for kind, services in (("gateway", self.gateways), ("worker", self.workers)):
            dead = [one for one in services if one.process.poll() is not None]
            for _ in range(2 - len(services) + len(dead)):
                await self._add(kind)
            for service in dead:  # after the new ones are there, so that clients always have a place to try
                self.forget(service)
        await self._ready(*self.gateways, *self.workers)

    def _mend_store(self) -> None:
        if self._store is not None:
            self._store.thaw()
            return
        nodes = self._sentinel.stores if self._sentinel is not None else self.cluster.nodes
        for node in nodes:
            node.thaw()
            if not node.answers():
                node.kill()  # what may be left of it
                node.start()
        if self._sentinel is not None:
            primary = self._sentinel.primary
            for node in self._sentinel.replicas:
                with self._sentinel.raw(node) as raw:
                    raw.execute_command("REPLICAOF", "127.0.0.1", primary.port)
            self._sentinel.wait_until_well()
        else:
            self.cluster.wait_until_well(1)
        _wait_for_copies(nodes)

    def rss_bytes(self, service: Service) -> int:
        """How much memory a process holds now."""
        pages = int(Path(f"/proc/{service.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def words(self) -> str:
        """What the processes said last."""
        return "\n".join(f"--- {service.process.args}\n{service.words}" for service in (*self.gateways, *self.workers))

    async def _add(self, kind: str) -> Service:
        link = FaultProxy(self.store.port) if kind == self.scene.far else None  # only one node can be far
        if link is not None:
            await link.start()
        self._deployment.redis_url = link.url if link is not None else self.url
        # Names must stay unique in a fleet that replaces its members.
        self._deployment.name = f"{self._deployment.name.split('.')[0]}.{time.monotonic_ns() % 10**9}"
        service = self._deployment.add_gateway() if kind == "gateway" else self._deployment.add_worker()
        if link is not None:
            self._links[service] = link
        return service

    async def _ready(self, *services: Service) -> list[Service]:
        """Return once all are ready: these, or others in their place."""
        return list(await asyncio.gather(*(self._ready_or_another(service) for service in services)))

    async def _ready_or_another(self, service: Service) -> Service:
        try:
            await asyncio.to_thread(service.wait_until_ready)
        except RuntimeError:
            if "address already in use" not in service.words:
                raise
            # Somebody took the port between the moment it was found to be free and the start.
            another = await self._add("gateway" if service in self.gateways else "worker")
            self.forget(service)
            return await self._ready_or_another(another)
        return service


def _wait_for_copies(nodes: list[StoreProcess]) -> None:
    """Return once every replica has what its primary has; one that still loads it is no help when the primary dies."""

    def follows(node: StoreProcess) -> bool:
        with redis.Redis.from_url(node.url) as raw:
            state = raw.info("replication")
        return state["role"] == "master" or state["master_link_status"] == "up"

    for node in nodes:
        until(lambda node=node: follows(node), "a replica to follow")  # type: ignore[misc]
