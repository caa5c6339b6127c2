"""Makes the faults of a plan happen to a fleet and its store."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from .client import Client
from .fleet import Fleet, GatewayProcess, WorkerProcess
from .loop import Process
from .plan import Fault

READONLY = b"READONLY You can't write against a read only replica."
OUT_OF_MEMORY = b"OOM command not allowed when used memory > 'maxmemory'."
LONGEST_STALL_S = 8.0
LOADING = b"LOADING Valkey is loading the dataset in memory"


class Faults:
    """One schedule's bad luck. ``run`` returns when all of it has passed."""

    def __init__(self, fleet: Fleet, clients: Sequence[Client], faults: Sequence[Fault]) -> None:
        self.fleet = fleet
        self.node = fleet.node
        self.clients = clients
        self.faults = faults

    async def run(self) -> None:
        """Let every fault happen at its time."""
        loop = self.fleet.loop
        began_s = loop.time()
        passing = []
        for fault in self.faults:
            await asyncio.sleep(max(0.0, began_s + fault.at_s - loop.time()))
            self.node.trace("fault", fault.kind, fault.args)
            passing.append(loop.create_task(self._happen(fault)))
        for task in passing:
            await task

    async def _happen(self, fault: Fault) -> None:
        kind, args = fault.kind, fault.args
        match kind:
            case "reply" | "request" | "part":
                self.node.lose_next[self._process(args)] = (kind, args[2])
            case "cut":
                self.node.cut_process(self._process(args), args[2])
            case "skip":
                self.node.skip_notifications[self._process(args)] = args[2]
            case "deaf":
                await self._deafen(self._process(args), args[2])
            case "slow" | "parted":
                await self._hinder(kind, self._process(args), args[2])
            case "freeze":
                self.node.freeze(args[0])
                await asyncio.sleep(args[0])
            case "readonly" | "oom":
                await self._complain(READONLY if kind == "readonly" else OUT_OF_MEMORY, args[0])
            case "restart" | "emptied" | "failover":
                await self._restart(kind, args)
            case "cut-client" | "vanish-client":
                self._hurt_client(kind, args[0])
            case _:
                await self._hurt_process(kind, args)

    # -- the store -----------------------------------------------------------------------------------------------------

    async def _complain(self, text: bytes, seconds: float) -> None:
        self.node.complain(text)
        await asyncio.sleep(seconds)
        self.node.complain(None)

    async def _restart(self, kind: str, args: tuple[Any, ...]) -> None:
        match kind:
            case "emptied":
                self.node.restart(0, args[0], emptied=True)
                await asyncio.sleep(args[0])
            case "failover":
                # The old primary refuses writes first; whoever is promoted lacks the last ones.
                await self._complain(READONLY, args[1])
                self.node.restart(args[0], 0.05, promoted=True)
                await asyncio.sleep(0.05)
            case _:
                lost, seconds, forgets = args
                self.node.restart(lost, seconds, functions=not forgets)
                await asyncio.sleep(seconds)
                if seconds > 0.5:
                    await self._complain(LOADING, 0.3)

    # -- the network ---------------------------------------------------------------------------------------------------

    def _process(self, args: tuple[Any, ...]) -> Process:
        return self._pick(args[0], args[1]).process

    def _pick(self, who: str, which: int) -> GatewayProcess | WorkerProcess:
        everybody: Sequence[GatewayProcess | WorkerProcess] = (
            self.fleet.gateways if who == "gateway" else self.fleet.workers
        )
        alive = [one for one in everybody if one.alive] or list(everybody)
        return alive[which % len(alive)]

    async def _deafen(self, process: Process, seconds: float) -> None:
        """The subscription looks healthy and hears nothing."""
        for connection in self.node.connections:
            if connection.owner is process and connection.channels:
                connection.deaf_until_s = self.fleet.loop.time() + seconds
        await asyncio.sleep(seconds)

    async def _hinder(self, kind: str, process: Process, seconds: float) -> None:
        if kind == "slow":
            self.node.slow[process] = 0.4
            await asyncio.sleep(seconds)
            self.node.slow.pop(process, None)
        else:
            self.node.parted[process] = None
            await asyncio.sleep(seconds)
            self.node.parted.pop(process, None)
            # What was swallowed meanwhile is not sent again by this network: such connections are dead.
            self.node.cut_process(process)

    # -- processes -----------------------------------------------------------------------------------------------------

    async def _hurt_process(self, kind: str, args: tuple[Any, ...]) -> None:
        what, who = kind.split("-")
        victim = self._pick(who, args[0])
        if not victim.alive:
            return
        if what == "stall":
            await self._stall(victim.process, args[1])
            return
        add = self.fleet.add_gateway if who == "gateway" else self.fleet.add_worker
        if what == "drain":
            add()
            await asyncio.sleep(args[1])
            victim.drain()
            await asyncio.sleep(2.0)
        else:
            victim.die()
            await asyncio.sleep(args[1])
            add()

    async def _stall(self, process: Process, seconds: float) -> None:
        """Stop a process for a while; for 0 s until somebody has claimed a session of its, give or take a moment."""
        loop = self.fleet.loop
        if seconds:
            loop.stall(process, seconds)
            await asyncio.sleep(seconds)
            return
        fences, until_s = self.node.fences(), loop.time() + LONGEST_STALL_S
        loop.stall(process, LONGEST_STALL_S)
        while self.node.fences() == fences and loop.time() < until_s:
            await asyncio.sleep(0.002)
        await asyncio.sleep(self.fleet.draw.uniform(0.0, 0.03))
        loop.wake(process)

    def _hurt_client(self, kind: str, which: int) -> None:
        client = self.clients[which % len(self.clients)]
        if client.lines and client.line.code is None:
            if kind == "cut-client":
                client.line.socket.cut()
            else:
                client.line.socket.vanish()
