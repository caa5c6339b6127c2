"""Nemotron over toys as a service: ``python nemotron_worker.py …`` is a worker of it, its deployment starts those."""

from __future__ import annotations

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from duplex_es.client.presets.nemotron_voicechat import MODEL
from tests.support.processes import free_port
from tests.support.services import Deployment, Service


class ToyWorker(Service):
    """One worker process."""

    def _command(self, program: str, arguments: tuple[str, ...]) -> list[str]:
        return [sys.executable, str(Path(__file__)), *arguments]


class ToyDeployment(Deployment):
    """A gateway, and workers whose model obeys what ``tests.support.toy_nemotron`` names."""

    def __init__(self, redis_url: str, **more: object) -> None:
        super().__init__(redis_url, model=MODEL, **more)  # type: ignore[arg-type]

    def add_worker(self) -> Service:
        """Start one more worker."""
        port = free_port()
        name = f"{self.name}-worker-{len(self.workers) + 1}"
        where = ("--redis-url", self.redis_url, "--health-port", str(port), "--name", name)
        service = ToyWorker("nemotron-worker", *where, "--model", self.model, ready_port=port)
        self.workers.append(service)
        return service


if __name__ == "__main__":
    from tests.support.nemotron_stage import ENGINE, OPTIONS
    from workers import cli
    from workers.models.nemotron import NemotronModel

    cli.make_model = lambda name, options: NemotronModel(OPTIONS, factory=ENGINE)
    sys.exit(cli.main(sys.argv[1:]))
