"""The whole service as processes that a test may kill, freeze and cut off, and bring back."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from contextlib import suppress

import redis.asyncio

from tests.support.processes import StoreProcess, start_store
from tests.support.services import Deployment, Service
from tests.support.tcp_proxy import TcpProxy

AOF = ("--appendonly", "yes", "--appendfsync", "everysec")


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


class Fleet:
    """Two gateways and two workers over a store that keeps an append-only file. ``async with`` it.

    ``far`` names what reaches the store over a ``link`` of its own: ``gateway`` each gateway, ``worker`` each worker.
    ``urls`` are those of the gateways, in the order of ``gateways``.
    """

    def __init__(self, far: str = "", *, store_kind: str = "valkey", model: str = "echo") -> None:
        self.far = far
        self.store: StoreProcess = start_store(store_kind, *AOF)
        self._links: dict[Service, FaultProxy] = {}
        self._deployment = Deployment(self.store.url, model=model, options=("--slots", "16"))

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
            for kind in ("gateway", "worker"):
                for _ in range(2):
                    await self._add(kind)
            await self._ready(*self.gateways, *self.workers)
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *error: object) -> None:
        for service in (*self.gateways, *self.workers):
            self.thaw(service)
            if service.process.poll() is None:
                service.process.kill()
        await asyncio.to_thread(self._deployment.stop)
        for link in self._links.values():
            link.join()
            await link.stop()
        await asyncio.to_thread(self.store.stop)

    # -- faults ----------------------------------------------------------------------------------------------------

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

    async def command(self, *words: str) -> object:
        """Run one command on the store itself."""
        client = redis.asyncio.Redis.from_url(self.store.url)
        try:
            return await client.execute_command(*words)  # type: ignore[no-untyped-call]
        finally:
            await client.aclose()

    async def restart_store(self, *, kindly: bool, torn_bytes: int = 0) -> None:
        """End the store, by SIGTERM or SIGKILL, and start it again on the same port and files.

        ``torn_bytes`` are cut off the end of its append-only file before it starts.
        """
        if kindly:
            os.kill(self.store.pid, signal.SIGTERM)
            while self.store.answers():
                await asyncio.sleep(0.02)
            await asyncio.sleep(0.3)
        await asyncio.to_thread(self.store.kill)
        if torn_bytes:
            (tail,) = self.store.directory.glob("appendonlydir/*.incr.aof")
            os.truncate(tail, max(0, tail.stat().st_size - torn_bytes))
        await asyncio.to_thread(self.store.start)

    # -- repair ----------------------------------------------------------------------------------------------------

    async def replace(self, service: Service) -> Service:
        """Start another process like ``service`` and return once it is ready; the old one goes on living."""
        kind = "gateway" if service in self.gateways else "worker"
        new = await self._add(kind)
        await self._ready(new)
        return new

    def forget(self, service: Service) -> None:
        """Take a dead or dying process off the lists."""
        if service in self.gateways:
            at = self.gateways.index(service)
            del self.gateways[at], self.urls[at]
        else:
            self.workers.remove(service)

    async def mend(self) -> None:
        """Make everything whole again: links, frozen processes, dead ones replaced and everybody ready."""
        for link in self._links.values():
            link.join()
            link.delay_s = 0.0
        self.store.thaw()
        for service in (*self.gateways, *self.workers):
            self.thaw(service)
            if service.process.poll() is not None:
                services = self.gateways if service in self.gateways else self.workers
                at = services.index(service)
                new = await self.replace(service)
                services.remove(new)
                services[at] = new
                if services is self.gateways:
                    self.urls[at] = self.urls.pop()
        await self._ready(*self.gateways, *self.workers)

    def words(self) -> str:
        """What the processes said last."""
        return "\n".join(f"--- {service.process.args}\n{service.words}" for service in (*self.gateways, *self.workers))

    async def _add(self, kind: str) -> Service:
        link = FaultProxy(self.store.port) if kind == self.far else None
        if link is not None:
            await link.start()
        self._deployment.redis_url = link.url if link is not None else self.store.url
        # Names must stay unique in a fleet that replaces its members.
        self._deployment.name = f"{self._deployment.name.split('.')[0]}.{time.monotonic_ns() % 10**9}"
        service = self._deployment.add_gateway() if kind == "gateway" else self._deployment.add_worker()
        if link is not None:
            self._links[service] = link
        return service

    async def _ready(self, *services: Service) -> None:
        for service in services:
            await asyncio.to_thread(service.wait_until_ready)
