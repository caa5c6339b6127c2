"""The service as a person runs it: gateways and workers as real processes over one store, on loopback."""

from __future__ import annotations

import secrets
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

from tests.support.processes import free_port

READY_S = 60.0


class Service:
    """One gateway or worker process. Its log lines are kept for a failing test to show."""

    def __init__(self, program: str, *arguments: str, ready_port: int) -> None:
        self.ready_url = f"http://127.0.0.1:{ready_port}/readyz"
        self._log = Path(tempfile.mkstemp(prefix=f"{Path(program).name}-", suffix=".log")[1])
        with self._log.open("wb") as lines:
            self.process = subprocess.Popen(
                self._command(program, arguments),
                stdout=lines,
                stderr=lines,
                start_new_session=True,
            )

    def _command(self, program: str, arguments: tuple[str, ...]) -> list[str]:
        return [str(Path(sys.executable).with_name(program)), *arguments]

    @property
    def words(self) -> str:
        """The end of what the process said."""
        return self._log.read_text(errors="replace")[-4000:]

    def wait_until_ready(self) -> None:
        """Return once ``/readyz`` answers 200. Raises: RuntimeError with the process's own words."""
        deadline = time.monotonic() + READY_S
        while True:
            try:
                with urllib.request.urlopen(self.ready_url, timeout=1):
                    return
            except (urllib.error.URLError, OSError):
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"{self.process.args} is not ready:\n{self.words}") from None
                time.sleep(0.05)

    def stop(self) -> int:
        """Ask the process to end and wait for it; its exit status."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            status = self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
        self._log.unlink(missing_ok=True)
        return status


class Deployment:
    """Gateways and workers over the store at ``redis_url``; a context manager that is ready inside."""

    def __init__(
        self,
        redis_url: str,
        *,
        gateways: int = 1,
        workers: int = 1,
        model: str = "echo",
        options: tuple[str, ...] = (),
        gateway_options: tuple[str, ...] = (),
    ) -> None:
        """``options`` go onto each worker's command line, ``gateway_options`` onto each gateway's."""
        self.redis_url = redis_url
        self.model = model
        self.name = secrets.token_hex(3)  # deployments may share a store, and names are unique in a fleet
        self.gateways: list[Service] = []
        self.workers: list[Service] = []
        self.urls: list[str] = []
        self._counts = (gateways, workers)
        self._options = options
        self._gateway_options = gateway_options

    def __enter__(self) -> Deployment:
        try:
            for _ in range(self._counts[0]):
                self.add_gateway()
            for _ in range(self._counts[1]):
                self.add_worker()
            for service in (*self.gateways, *self.workers):
                service.wait_until_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def add_gateway(self) -> Service:
        """Start one more gateway; ``urls`` names it last."""
        port = free_port()
        name = f"{self.name}-gw-{len(self.gateways) + 1}"
        where = ("--redis-url", self.redis_url, "--port", str(port), "--name", name)
        options = ("--default-model", self.model, *self._gateway_options)
        service = Service("duplex-es-gateway", *where, *options, ready_port=port)
        self.gateways.append(service)
        self.urls.append(f"ws://127.0.0.1:{port}/v1/realtime")
        return service

    def add_worker(self) -> Service:
        """Start one more worker."""
        port = free_port()
        name = f"{self.name}-worker-{len(self.workers) + 1}"
        where = ("--redis-url", self.redis_url, "--health-port", str(port), "--name", name)
        service = Service("duplex-es-worker", *where, "--model", self.model, *self._options, ready_port=port)
        self.workers.append(service)
        return service

    def stop(self) -> None:
        """End every process, gateways first."""
        for service in (*self.gateways, *self.workers):
            service.stop()
        self.gateways, self.workers, self.urls = [], [], []
