"""The whole service on one machine: a store, gateways and workers as real processes on loopback."""

from __future__ import annotations

import asyncio
import secrets
import shutil
import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from .children import Child, Say
from .errors import ToolError
from .probe import answers_ping, free_port, http_get, is_free
from .store import store_command

LOOPBACK = "127.0.0.1"
REALTIME_PATH = "/v1/realtime"
POLL_S = 0.1
STORE_READY_S = 10.0
READY_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StackPlan:
    """What to run. ``port`` is the first gateway's, the others follow; 0 picks free ones.

    ``metrics_port`` is where the first gateway's figures are, on loopback whatever ``host`` is; those of the other
    gateways follow, then the workers'; 0 picks free ones.
    Without ``redis_url`` an embedded store is started. ``worker_options`` are handed to every worker as they are.
    ``pages`` are the web pages of every gateway; they resume their sessions at any of them.
    """

    gateways: int = 1
    workers: int = 1
    model: str = "cascade"
    host: str = LOOPBACK
    port: int = 8099
    metrics_port: int = 0
    redis_url: str | None = None
    slots: int = 8
    log_level: str = "info"
    worker_options: tuple[str, ...] = ()
    pages: bool = False


def program(name: str) -> str:
    """The console script ``name`` beside this Python. Raises: ToolError when its extra is not installed."""
    script = Path(sys.executable).with_name(name)
    if script.exists():
        return str(script)
    if found := shutil.which(name):
        return found
    raise ToolError(f"{name} is not installed beside {sys.executable}: install duplex-es[gateway,cascade,embedded]")


class Stack:
    """Runs a plan as an async context manager: inside it everything is ready, after it everything has ended.

    Entering raises ToolError when something does not come up, with that process's own last words.
    """

    def __init__(self, plan: StackPlan, say: Say) -> None:
        self.plan = plan
        self.redis_url = plan.redis_url or ""
        # Names are unique in a fleet, and others may use an outside store at the same time.
        self._suffix = f"-{secrets.token_hex(3)}" if plan.redis_url else ""
        self.gateway_ports: list[int] = []
        self._admin_ports: list[int] = []
        self._say = say
        self._store: Child | None = None
        self._gateways: list[Child] = []
        self._workers: list[Child] = []
        self._directory: Path | None = None

    @property
    def urls(self) -> list[str]:
        """Where clients connect, one per gateway."""
        return [f"ws://{self._reachable_host}:{port}{REALTIME_PATH}" for port in self.gateway_ports]

    @property
    def page_urls(self) -> list[str]:
        """Where a browser finds the web pages, one per gateway; none without ``pages``."""
        ports = self.gateway_ports if self.plan.pages else []
        return [f"http://{self._reachable_host}:{port}/" for port in ports]

    @property
    def metrics_urls(self) -> dict[str, str]:
        """Where Prometheus finds the figures of each process, by its name: the gateways, then the workers."""
        children = (*self._gateways, *self._workers)
        named = zip(children, self._admin_ports, strict=True)
        return {child.name: f"http://{LOOPBACK}:{port}/metrics" for child, port in named}

    @property
    def _reachable_host(self) -> str:
        return LOOPBACK if self.plan.host in ("", "0.0.0.0") else self.plan.host

    @property
    def children(self) -> list[Child]:
        """Every process that was started, the store first."""
        return [*([self._store] if self._store else []), *self._gateways, *self._workers]

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stop()

    async def wait_until_broken(self) -> str:
        """Return, in words, when the store, the last gateway or the last worker has ended by itself."""
        ends = {asyncio.create_task(child.wait()): child for child in self.children}
        try:
            while True:
                done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    child = ends.pop(task)
                    ending = f"ended with code {task.result()}"
                    self._say(child.name, ending)
                    for group in ([self._store], self._gateways, self._workers):
                        if child in group and not any(each and each.is_running for each in group):
                            return f"{child.name} {ending}"
        finally:
            for task in ends:
                task.cancel()

    async def lose_gateway(self, url: str) -> str:
        """Kill the gateway behind ``url``, as a lost machine would; its name."""
        child = self._gateways[self.urls.index(url)]
        await child.kill()
        return child.name

    # -- start -----------------------------------------------------------------------------------------------------

    async def _start(self) -> None:
        plan = self.plan
        self.gateway_ports = _ports("--port", plan.host, plan.port, plan.gateways)
        measured = plan.gateways + plan.workers
        self._admin_ports = _ports("--metrics-port", LOOPBACK, plan.metrics_port, measured, self.gateway_ports)
        if not plan.redis_url:
            await self._start_store()
        metrics_ports, health_ports = self._admin_ports[: plan.gateways], self._admin_ports[plan.gateways :]
        numbered = enumerate(zip(self.gateway_ports, metrics_ports, strict=True), 1)
        self._gateways = [self._gateway(n, port, metrics_port) for n, (port, metrics_port) in numbered]
        self._workers = [self._worker(n, port) for n, port in enumerate(health_ports, 1)]
        for child in (*self._gateways, *self._workers):
            await child.start()
        where = [
            (child, self._reachable_host, port) for child, port in zip(self._gateways, self.gateway_ports, strict=True)
        ]
        where += [(child, LOOPBACK, port) for child, port in zip(self._workers, health_ports, strict=True)]
        async with asyncio.TaskGroup() as group:
            waits = [group.create_task(_settled(_wait_until_ready(*each))) for each in where]
        for wait in waits:
            if failure := wait.result():
                raise failure

    async def _start_store(self) -> None:
        port = free_port()
        self._directory = Path(tempfile.mkdtemp(prefix="duplex-es-store-"))
        self._store = Child("store", store_command(port, self._directory), self._say_of_store)
        self.redis_url = f"redis://{LOOPBACK}:{port}/0"
        await self._store.start()
        await _poll(self._store, lambda: answers_ping(LOOPBACK, port), STORE_READY_S, lambda: "no answer to PING")

    def _say_of_store(self, name: str, line: str) -> None:
        # A hint for servers that save to disk; this one never does.
        if "overcommit" not in line:
            self._say(name, line)

    def _gateway(self, number: int, port: int, metrics_port: int) -> Child:
        name = f"gw-{number}"
        where = ("--host", self.plan.host, "--port", str(port), *self._log_options())
        where += ("--metrics-port", str(metrics_port))
        what = ("--default-model", self.plan.model, "--name", f"{name}{self._suffix}")
        others = ",".join(url.removesuffix(REALTIME_PATH) for url in self.urls)
        pages = ("--pages", "on", "--page-gateways", others) if self.plan.pages else ()
        return Child(name, [program("duplex-es-gateway"), *where, *what, *pages, *self._logging()], self._say)

    def _worker(self, number: int, health_port: int) -> Child:
        name = f"worker-{number}"
        where = (*self._log_options(), "--health-port", str(health_port))
        what = ("--model", self.plan.model, "--slots", str(self.plan.slots), *self.plan.worker_options)
        named = ("--name", f"{name}{self._suffix}")
        return Child(name, [program("duplex-es-worker"), *where, *what, *named, *self._logging()], self._say)

    def _log_options(self) -> tuple[str, ...]:
        """Where the log is. Our own store keeps nothing on disk, so nobody should wait for that."""
        own = () if self.plan.redis_url else ("--durability", "memory")
        return ("--redis-url", self.redis_url, *own)

    def _logging(self) -> tuple[str, ...]:
        return ("--log-format", "text", "--log-level", self.plan.log_level)

    # -- stop ------------------------------------------------------------------------------------------------------

    async def _stop(self) -> None:
        """End the servers together, then the store they write to, then its directory."""
        await asyncio.gather(*(child.stop() for child in (*self._gateways, *self._workers)))
        if self._store is not None:
            await self._store.stop()
        if self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)


def told_metrics(stack: Stack) -> str:
    """One line that says where the figures of each process are."""
    return "metrics: " + ", ".join(f"{name} {url}" for name, url in stack.metrics_urls.items())


def _ports(option: str, host: str, first: int, count: int, besides: Sequence[int] = ()) -> list[int]:
    """``count`` ports of ``host`` from ``first`` on, or any free ones for 0; none of them is one of ``besides``.

    Raises: ToolError for one in use.
    """
    if first == 0:
        found: list[int] = []
        while len(found) < count:
            if (port := free_port(host)) not in (*besides, *found):
                found.append(port)
        return found
    ports = list(range(first, first + count))
    if taken := [port for port in ports if port in besides or not is_free(host, port)]:
        raise ToolError(f"port {taken[0]} of {host} is in use: give another {option}, or 0 for free ones")
    return ports


async def _wait_until_ready(child: Child, host: str, port: int) -> None:
    answer = ["nothing listens yet"]

    async def is_ready() -> bool:
        try:
            status, body = await http_get(host, port, "/readyz")
        except OSError:
            return False
        answer[0] = body.strip() or str(status)
        return status == 200

    await _poll(child, is_ready, READY_S, lambda: answer[0])


async def _settled(work: Awaitable[None]) -> ToolError | None:
    """The ToolError of ``work``, as a value: in a task group the first one would hide the others behind a group."""
    try:
        await work
    except ToolError as error:
        return error
    return None


async def _poll(
    child: Child, is_ready: Callable[[], Awaitable[bool]], limit_s: float, state: Callable[[], str]
) -> None:
    deadline_s = asyncio.get_running_loop().time() + limit_s
    while not await is_ready():
        if not child.is_running:
            code = await child.wait()
            raise ToolError(f"{child.name} ended with code {code} before it was ready:\n{child.last_words}")
        if asyncio.get_running_loop().time() > deadline_s:
            raise ToolError(f"{child.name} is not ready after {limit_s:g} s ({state()}):\n{child.last_words}")
        await asyncio.sleep(POLL_S)
