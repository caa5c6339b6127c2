"""A small site: a store, gateways and workers on hosts of their own, and a load balancer before them, as shipped.

The balancer runs with ``deploy/haproxy/haproxy.cfg`` or ``deploy/nginx/nginx.conf``, the store with
``deploy/redis/valkey.conf``; only names, addresses and folders are put in.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from tests.support.hosts import Hosts
from tests.support.processes import store_program

ROOT = Path(__file__).resolve().parents[2]
GATEWAY_PORT, HEALTH_PORT, STORE_PORT = 8099, 8098, 6379
READY_S, GONE_S = 60.0, 60.0


class Member:
    """One process of the site on its host. ``restart`` it as a deploy does: SIGTERM, wait for its end, start anew."""

    def __init__(self, name: str, words: Sequence[str], ready_url: str, folder: Path) -> None:
        self.name = name
        self.ready_url = ready_url
        self._words = words
        self._log = folder / f"{name}.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process's id. Raises: RuntimeError while it is not running."""
        if self._process is None:
            raise RuntimeError(f"{self.name} does not run")
        return self._process.pid

    @property
    def words(self) -> str:
        """The end of what the process said."""
        return self._log.read_text(errors="replace")[-4000:]

    async def start(self) -> None:
        """Start the process and return once it is ready. Raises: RuntimeError with its own words."""
        with self._log.open("ab") as lines:
            self._process = subprocess.Popen(self._words, stdout=lines, stderr=lines, start_new_session=True)
        deadline = time.monotonic() + READY_S
        while not await asyncio.to_thread(_answers, self.ready_url):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{self.name} is not ready:\n{self.words}")
            await asyncio.sleep(0.05)

    async def restart(self) -> float:
        """Replace the process by another one like it; how long the old one took to end, in seconds.

        Raises: RuntimeError when it ends with an error or not at all.
        """
        began_s = time.monotonic()
        process = self._process
        assert process is not None
        process.terminate()
        try:
            status = await asyncio.to_thread(process.wait, GONE_S)
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"{self.name} did not end:\n{self.words}") from None
        if status != 0:
            raise RuntimeError(f"{self.name} ended with {status}:\n{self.words}")
        took_s = time.monotonic() - began_s
        await self.start()
        return took_s

    def stop(self) -> None:
        """End the process, and what it has started: nginx's workers live on without it. Idempotent."""
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


def _answers(url: str) -> bool:
    if not url.startswith("http"):
        host, port = url.split(":")
        ask = subprocess.run(["bash", "-c", f"exec 3<>/dev/tcp/{host}/{port}"], capture_output=True, check=False)
        return ask.returncode == 0
    try:
        with urllib.request.urlopen(url, timeout=2):
            return True
    except (urllib.error.URLError, OSError):
        return False


class Site:
    """``async with`` it: everything is there and ready. ``url`` is the balancer's, ``store_url`` the log's."""

    def __init__(
        self,
        *,
        balancer: str = "haproxy",
        gateways: int = 3,
        workers: int = 2,
        slots: int = 80,
        model: str = "echo",
        namespaces: bool | None = None,
    ) -> None:
        """Without a ``balancer``, ``url`` is the first gateway's. ``namespaces`` as of ``Hosts``."""
        self.gateways: list[Member] = []
        self.workers: list[Member] = []
        self._balancer = balancer
        self._counts = (gateways, workers)
        self._slots = slots
        self._model = model
        self._hosts = Hosts(namespaces=namespaces)
        self._others: list[Member] = []
        self._folder = Path(tempfile.mkdtemp(prefix="duplex-es-site-"))

    @property
    def kind(self) -> str:
        """What the hosts are."""
        return self._hosts.kind

    @property
    def url(self) -> str:
        """Where clients connect."""
        first = "balancer" if self._balancer else self.gateways[0].name
        return f"ws://{self._hosts.address(first)}:{GATEWAY_PORT}/v1/realtime"

    @property
    def store(self) -> Member:
        """The store's process."""
        return self._others[0]

    @property
    def store_url(self) -> str:
        """Where the log is."""
        return f"redis://{self._hosts.address('store')}:{STORE_PORT}/0"

    async def __aenter__(self) -> Site:
        try:
            self._hosts.__enter__()
            await self._start("store", self._store(), f"{self._hosts.address('store')}:{STORE_PORT}", self._others)
            for number in range(self._counts[0]):
                await self._add_gateway(f"gateway-{number + 1}")
            for number in range(self._counts[1]):
                await self._add_worker(f"worker-{number + 1}")
            if self._balancer:
                ready = f"http://{self._hosts.address('balancer')}:{GATEWAY_PORT}/readyz"
                await self._start("balancer", self._balance(), ready, self._others)
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *error: object) -> None:
        for member in (*self.gateways, *self.workers, *reversed(self._others)):
            member.stop()
        self._hosts.__exit__()
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def words(self) -> str:
        """What the processes said last."""
        return "\n".join(f"--- {one.name}\n{one.words}" for one in (*self._others, *self.gateways, *self.workers))

    def keep_words(self, folder: Path) -> None:
        """Copy all that the processes said into ``folder``."""
        folder.mkdir(parents=True, exist_ok=True)
        for log in self._folder.glob("*.log"):
            shutil.copy(log, folder)

    async def _start(self, host: str, words: Sequence[str], ready: str, kept: list[Member]) -> None:
        member = Member(host, self._hosts.command(host, words), ready, self._folder)
        kept.append(member)
        await member.start()

    async def _add_gateway(self, name: str) -> None:
        where = self._hosts.address(name)
        words = [_program("duplex-es-gateway"), "--host", where, "--port", str(GATEWAY_PORT), "--name", name]
        words += ["--redis-url", self.store_url, "--default-model", self._model]
        await self._start(name, words, f"http://{where}:{GATEWAY_PORT}/readyz", self.gateways)

    async def _add_worker(self, name: str) -> None:
        where = self._hosts.address(name)
        words = [_program("duplex-es-worker"), "--health-host", where, "--health-port", str(HEALTH_PORT)]
        words += ["--redis-url", self.store_url, "--model", self._model, "--slots", str(self._slots)]
        await self._start(name, words, f"http://{where}:{HEALTH_PORT}/readyz", self.workers)

    def _store(self) -> list[str]:
        where = self._hosts.address("store")
        own = ["--bind", where, "--protected-mode", "no", "--dir", str(self._folder)]
        return [str(store_program("valkey")), str(ROOT / "deploy/redis/valkey.conf"), *own]

    def _balance(self) -> list[str]:
        where = self._hosts.address("balancer")
        if self._balancer == "haproxy":
            text = (ROOT / "deploy/haproxy/haproxy.cfg").read_text()
            text = text.replace("bind :8099", f"bind {where}:8099").replace("127.0.0.1:8404", f"{where}:8404")
        else:
            text = (ROOT / "deploy/nginx/nginx.conf").read_text().replace("listen 8099", f"listen {where}:8099")
        path = self._folder / f"{self._balancer}.conf"
        path.write_text(self._with_gateways(text).replace("/tmp/", f"{self._folder}/"))
        os.chmod(self._folder, 0o755)  # nginx's workers are somebody else
        if self._balancer == "haproxy":
            return ["haproxy", "-db", "-f", str(path)]
        return ["nginx", "-c", str(path), "-g", "daemon off;"]

    def _with_gateways(self, text: str) -> str:
        """The configuration with these gateways in the place of the two that it names."""
        one, other = re.findall(r"^ *server .*gateway-\d:8099.*$", text, re.M)
        servers = [
            one.replace("gateway-1:8099", f"{self._hosts.address(member.name)}:8099").replace("gateway-1", member.name)
            for member in self.gateways
        ]
        return text.replace(f"{one}\n", "\n".join(servers) + "\n").replace(f"{other}\n", "")


def _program(name: str) -> str:
    return str(Path(sys.executable).with_name(name))
