"""A service whose figures are scraped: real gateways, workers and store, their operators' ports, and Prometheus."""

from __future__ import annotations

import base64
import json
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.support.processes import StoreProcess, free_port, start_store
from tests.support.services import Service

ROOT = Path(__file__).resolve().parents[2]
PROMETHEUS = "/usr/bin/prometheus"
SCRAPE_S = 0.5
HASTY = ("--ping-interval-s", "1", "--renew-interval-s", "0.5")


class Program(Service):
    """One gateway or worker, with the port of its operators."""

    def __init__(self, program: str, name: str, metrics_port: int, *arguments: str, json_lines: bool = True) -> None:
        self.name, self.metrics_port = name, metrics_port
        logging = ("--log-format", "json", "--log-level", "debug") if json_lines else ()
        super().__init__(program, *arguments, "--name", name, *logging, ready_port=metrics_port)

    @property
    def all_words(self) -> str:
        """Everything it said."""
        return self._log.read_text(errors="replace")

    def figures(self) -> str:
        """Its ``/metrics``."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=5) as answer:
            text: str = answer.read().decode()
        return text


class SlowWorker(Program):
    """A worker of the model ``toy`` whose engine takes ``step_ms`` for its 20 ms."""

    def __init__(self, name: str, metrics_port: int, step_ms: int, *arguments: str) -> None:
        self._step_ms = step_ms
        super().__init__(sys.executable, name, metrics_port, *arguments)

    def _command(self, program: str, arguments: tuple[str, ...]) -> list[str]:
        return [program, str(ROOT / "tests/support/slow_worker.py"), str(self._step_ms), *arguments]


class Archive(Program):
    """``duplex-es archive run`` into ``folder``, which leaves the store's retention as it is."""

    def __init__(self, name: str, metrics_port: int, redis_url: str) -> None:
        self._place = tempfile.TemporaryDirectory(prefix="duplex-es-archive-")
        self.folder = Path(self._place.name) / "archive"
        key = Path(self._place.name) / "operator.key"
        key.write_text(base64.b64encode(secrets.token_bytes(32)).decode())
        where = ("--to", str(self.folder), "--keys", str(self.folder.with_name("keys")), "--key-file", str(key))
        how = ("--redis-url", redis_url, "--keep-all", "--open", "--every-s", "0.5", "--health-port", str(metrics_port))
        super().__init__("duplex-es", name, metrics_port, *where, *how)

    def _command(self, program: str, arguments: tuple[str, ...]) -> list[str]:
        unnamed = arguments[: arguments.index("--name")]
        return [*super()._command(program, ("archive", "run", *unnamed))]

    def stop(self) -> int:
        """See ``Service``; its folder goes, too."""
        status = super().stop()
        self._place.cleanup()
        return status

    def lose_its_place(self) -> None:
        """What it writes has nowhere to go."""
        self.folder.rename(self.folder.with_name("elsewhere"))
        self.folder.write_bytes(b"")

    def find_it_again(self) -> None:
        """The place is back, as it was."""
        self.folder.unlink()
        self.folder.with_name("elsewhere").rename(self.folder)


class WatchedStack:
    """Gateways and workers over a store of their own; a context manager in which processes come and go."""

    def __init__(self, *store_options: str, gateway_options: tuple[str, ...] = ()) -> None:
        self.store: StoreProcess = start_store("valkey", *store_options)
        self.name = secrets.token_hex(3)
        self.gateways: list[Program] = []
        self.workers: list[Program] = []
        self.archive: Archive | None = None
        self.urls: list[str] = []
        self._gateway_options = gateway_options

    def __enter__(self) -> WatchedStack:
        return self

    def __exit__(self, *error: object) -> None:
        self.store.thaw()
        for service in self._programs:
            service.process.kill()
            service.stop()
        self.store.stop()

    def add_gateway(self, *options: str) -> Program:
        """One more gateway, ready; ``urls`` names it last."""
        port, metrics_port = free_port(), free_port()
        where = ("--redis-url", self.store.url, "--port", str(port), "--metrics-port", str(metrics_port))
        name = f"{self.name}-gw-{len(self.gateways) + 1}"
        gateway = Program("duplex-es-gateway", name, metrics_port, *where, *HASTY, *self._gateway_options, *options)
        self.gateways.append(gateway)
        self.urls.append(f"ws://127.0.0.1:{port}/v1/realtime")
        gateway.wait_until_ready()
        return gateway

    def add_worker(self, model: str, *options: str, slots: int = 4) -> Program:
        """One more worker, ready."""
        name, port = f"{self.name}-worker-{len(self.workers) + 1}", free_port()
        worker = Program("duplex-es-worker", name, port, *self._of_worker(model, port, slots), *options)
        return self._kept(worker)

    def add_archive(self) -> Archive:
        """A process that archives what is closed into a folder of its own, ready."""
        self.archive = Archive(f"{self.name}-archive", free_port(), self.store.url)
        self.archive.wait_until_ready()
        return self.archive

    def add_slow_worker(self, step_ms: int) -> Program:
        """A worker of ``toy``, ready."""
        name, port = f"{self.name}-toy-{len(self.workers) + 1}", free_port()
        return self._kept(SlowWorker(name, port, step_ms, *self._of_worker("toy", port, 4)))

    def _of_worker(self, model: str, port: int, slots: int) -> tuple[str, ...]:
        where = ("--redis-url", self.store.url, "--health-port", str(port))
        return (*where, "--model", model, "--slots", str(slots), *("--drain-s", "1", "--disconnect-grace-s", "2"))

    def _kept(self, worker: Program) -> Program:
        self.workers.append(worker)
        worker.wait_until_ready()
        return worker

    @property
    def targets(self) -> list[str]:
        """Where Prometheus finds them all."""
        return [f"127.0.0.1:{service.metrics_port}" for service in self._programs]

    @property
    def _programs(self) -> list[Program]:
        return [*self.gateways, *self.workers, *([self.archive] if self.archive else [])]


class Prometheus:
    """A real Prometheus that scrapes ``targets`` twice a second. ``rules`` are the texts of rule files."""

    def __init__(self, rules: Iterable[str] = ()) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="duplex-es-prometheus-"))
        self._targets = self._directory / "targets.json"
        self.scrape([])
        names = []
        for number, rule in enumerate(rules):
            (self._directory / f"{number}.yaml").write_text(rule)
            names.append(f"{number}.yaml")
        (self._directory / "prometheus.yaml").write_text(
            json.dumps(
                {
                    "global": {"scrape_interval": f"{int(SCRAPE_S * 1000)}ms", "evaluation_interval": "500ms"},
                    "rule_files": names,
                    "scrape_configs": [
                        {
                            "job_name": "duplex-es",
                            "scrape_timeout": "500ms",
                            "file_sd_configs": [{"files": ["targets.json"], "refresh_interval": "1s"}],
                        }
                    ],
                }
            )
        )
        self.port = free_port()
        self._output = (self._directory / "prometheus.log").open("wb")
        self._process = subprocess.Popen(
            [
                PROMETHEUS,
                f"--config.file={self._directory / 'prometheus.yaml'}",
                f"--storage.tsdb.path={self._directory / 'data'}",
                f"--web.listen-address=127.0.0.1:{self.port}",
            ],
            stdout=self._output,
            stderr=self._output,
            start_new_session=True,
        )

    def __enter__(self) -> Prometheus:
        self.until(lambda: self._answers(), 30, "Prometheus answers")
        return self

    def __exit__(self, *error: object) -> None:
        self._process.terminate()
        self._process.wait(60)
        self._output.close()
        shutil.rmtree(self._directory, ignore_errors=True)

    def scrape(self, targets: list[str]) -> None:
        """Scrape these from now on."""
        written = self._targets.with_suffix(".new")
        written.write_text(json.dumps([{"targets": targets}]))
        written.replace(self._targets)

    def ask(self, path: str, **parameters: str) -> Any:
        """The ``data`` of an API answer. Raises: AssertionError with what Prometheus says of a bad request."""
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{parameters}: {error.read().decode()}") from error

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The samples of an instant query."""
        result: list[dict[str, Any]] = self.ask("query", query=expression)["result"]
        return result

    def firing(self) -> set[str]:
        """The names of the alerts that fire now."""
        return {alert["labels"]["alertname"] for alert in self.ask("alerts")["alerts"] if alert["state"] == "firing"}

    def until_fires(self, alert: str, patience_s: float = 30.0) -> None:
        """Return once ``alert`` fires. Raises: AssertionError with what does."""
        self.until(lambda: alert in self.firing(), patience_s, alert)

    def until(self, condition: Any, patience_s: float, what: str) -> None:
        """Return once ``condition()`` holds. Raises: AssertionError."""
        deadline = time.monotonic() + patience_s
        while not condition():
            if time.monotonic() > deadline:
                firing = self.firing() if self._answers() else "Prometheus is silent"
                raise AssertionError(f"not within {patience_s:g} s: {what}; firing: {firing}")
            time.sleep(0.1)

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/-/ready", timeout=1) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False
