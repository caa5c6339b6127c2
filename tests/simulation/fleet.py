"""Gateways and workers of one schedule: the real ones, each in a simulated process, with a log of its own."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

from duplex_es.log.api import Attachment, Claim, Record
from duplex_es.log.redis import RedisLog
from duplex_es.log.settings import LogSettings
from gateway.app import create_app
from gateway.service import Service
from gateway.settings import Settings
from workers.host import Host
from workers.models.echo.model import EchoModel

from .loop import Process, SimulatedLoop
from .node import Node
from .sockets import Socket

LEASE_S = 4.0
MODEL = "echo"


def log_settings() -> LogSettings:
    """Shorter times than in service, in the same proportions: a schedule should not spend its steps on waiting."""
    return LogSettings(
        lease_s=LEASE_S,
        append_timeout_s=6.0,
        socket_timeout_s=1.0,
        connect_timeout_s=1.0,
        probe_interval_s=2.5,
        sweep_interval_s=1.5,
        watch_interval_s=0.6,
    )


class Acknowledged:
    """What the log promised to keep: every record whose append returned, by stream and id."""

    def __init__(self) -> None:
        self.output: dict[tuple[str, int], dict[tuple[int, int], bytes]] = {}
        self.input: dict[tuple[str, int], dict[tuple[int, int], bytes]] = {}


class WitnessedLog(RedisLog):
    """The real log, which notes for the checker what it acknowledged."""

    acknowledged: Acknowledged

    async def append_output(self, claim: Claim, first_seq: int, records: Sequence[Record]) -> None:
        """As the log does."""
        await super().append_output(claim, first_seq, records)
        ref = claim.ref
        kept = self.acknowledged.output.setdefault((ref.session_id, ref.incarnation), {})
        kept.update({(claim.fence, first_seq + n): record.body for n, record in enumerate(records)})

    async def append_input(self, attachment: Attachment, first_index: int, records: Sequence[Record]) -> None:
        """As the log does."""
        await super().append_input(attachment, first_index, records)
        ref = attachment.ref
        kept = self.acknowledged.input.setdefault((ref.session_id, ref.incarnation), {})
        kept.update({(attachment.generation, first_index + n): record.body for n, record in enumerate(records)})


class GatewayProcess:
    """One gateway: ``accept`` sockets, ``drain`` it, or let its process die."""

    def __init__(self, fleet: Fleet, name: str) -> None:
        self.fleet = fleet
        self.name = name
        self.sockets: list[Socket] = []
        self.process = fleet.loop.process(name)
        self.process.skew_s = fleet.draw.uniform(-0.3, 0.3)
        self.accepting = True
        self._log = fleet.make_log(self.process)
        settings = Settings(
            name=name,
            default_model=MODEL,
            config_timeout_s=5.0,
            opening_timeout_s=12.0,
            renew_interval_s=1.0,
            log_patience_s=5.0,
            drain_s=1.0,
        )
        self.service = Service(settings, self._log)
        self._app = create_app(self.service)
        fleet.loop.spawn(self.process, self._live())

    async def _live(self) -> None:
        async with self.service.running():
            await asyncio.get_running_loop().create_future()

    @property
    def alive(self) -> bool:
        """Whether a connection would get an answer."""
        return self.process.alive and self.accepting

    def accept(self, client: Process, query: str) -> Socket:
        """A new socket of a client. Raises: OSError when nobody listens."""
        if not self.alive:
            raise OSError("connection refused")
        socket = Socket(self.fleet.loop, self.fleet.draw, client, self.process, query)
        self.sockets.append(socket)
        self.fleet.loop.spawn(self.process, self._app(socket.scope, socket.receive, socket.send))
        return socket

    def drain(self) -> None:
        """Stop as a deploy does."""
        self.fleet.loop.spawn(self.process, self._drain())

    async def _drain(self) -> None:
        await self.service.drain()
        await asyncio.sleep(0.05)
        self.die()

    def die(self) -> None:
        """The process ends at once; the kernel closes its sockets."""
        if self.process.alive:
            self.accepting = False
            self.fleet.loop.kill(self.process)
            self.fleet.node.process_ended(self.process)
            for socket in self.sockets:
                socket.server_died()


class WorkerProcess:
    """One worker with the echo model."""

    def __init__(self, fleet: Fleet, name: str) -> None:
        self.fleet = fleet
        self.name = name
        self.process = fleet.loop.process(name)
        self.process.skew_s = fleet.draw.uniform(-0.3, 0.3)
        self.draining = False
        self._log = fleet.make_log(self.process)
        self.host = fleet.loop.outside.context.copy().run(self._make_host)
        fleet.loop.spawn(self.process, self._live())

    def _make_host(self) -> Host:
        model: Any = EchoModel({"lead_ms": "0", "chunk_ms": "40"})
        return Host(self._log, model, worker=self.name, slots=4, drain_s=1.5)

    async def _live(self) -> None:
        await self.host.run()
        await self._log.close_connections()
        self.fleet.loop.kill(self.process)
        self.fleet.node.process_ended(self.process)

    @property
    def alive(self) -> bool:
        """Whether it serves."""
        return self.process.alive and not self.draining

    def drain(self) -> None:
        """Stop as a deploy does: hand the sessions over."""
        self.draining = True
        self.fleet.loop.call_soon(self.host.stop, context=self.process.context)

    def die(self) -> None:
        """The process ends at once."""
        self.draining = True
        self.fleet.loop.kill(self.process)
        self.fleet.node.process_ended(self.process)


class Fleet:
    """All processes of one schedule but the clients'."""

    def __init__(self, loop: SimulatedLoop, node: Node, draw: random.Random) -> None:
        self.loop = loop
        self.node = node
        self.draw = draw
        self.acknowledged = Acknowledged()
        self.gateways: list[GatewayProcess] = []
        self.workers: list[WorkerProcess] = []

    def make_log(self, process: Process) -> WitnessedLog:
        """A log for one process."""
        log = WitnessedLog(self.node.factory(), log_settings(), check=False)
        log.acknowledged = self.acknowledged
        return log

    def add_gateway(self) -> GatewayProcess:
        """Start another gateway."""
        made = GatewayProcess(self, f"g{len(self.gateways) + 1}")
        self.gateways.append(made)
        return made

    def add_worker(self) -> WorkerProcess:
        """Start another worker."""
        made = WorkerProcess(self, f"w{len(self.workers) + 1}")
        self.workers.append(made)
        return made
