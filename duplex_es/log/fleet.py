"""The workers that live, and how many sessions wait for them."""

from __future__ import annotations

from . import keys
from .api import WorkerCard
from .nodes import Nodes, ask, from_each
from .packing import pack_card, unpack_card
from .settings import LogSettings


class Fleet:
    """The part of a ``SessionLog`` that is about workers rather than sessions."""

    def __init__(self, nodes: Nodes, settings: LogSettings) -> None:
        self._nodes = nodes
        self._settings = settings

    async def register(self, card: WorkerCard) -> None:
        """See ``SessionLog``."""
        await ask(
            self._nodes,
            *(("SADD", names, card.worker) for names in keys.FLEET_SETS),
            ("SET", keys.card(card.worker), pack_card(card), "PX", int(self._settings.lease_s * 1000)),
        )

    async def unregister(self, worker: str) -> None:
        """See ``SessionLog``."""
        forgotten = (("SREM", names, worker) for names in keys.FLEET_SETS)
        await ask(self._nodes, ("DEL", keys.card(worker)), *forgotten)

    async def cards(self) -> list[WorkerCard]:
        """See ``SessionLog.fleet``."""
        (names,) = await ask(self._nodes, ("SMEMBERS", keys.WORKERS))
        workers = sorted(name.decode() for name in names)
        if not workers:
            return []
        (cards,) = await ask(self._nodes, ("MGET", *(keys.card(worker) for worker in workers)))
        dead = [worker for worker, data in zip(workers, cards, strict=True) if data is None]
        if dead:
            # One that registers at this very moment is back with its next call.
            await ask(self._nodes, *(("SREM", names, *dead) for names in keys.FLEET_SETS))
        return [unpack_card(data) for data in cards if data is not None]

    async def waiting(self, model: str) -> int:
        """See ``SessionLog``."""

        async def count(partitions: list[int]) -> int:
            queues = [keys.ready(partition, model) for partition in partitions]
            # By the clock of the node that keeps the queues: a keyless command goes where the next keyed one does.
            (seconds, microseconds), _ = await ask(self._nodes, ("TIME",), ("EXISTS", queues[0]))
            now_ms = int(seconds) * 1000 + int(microseconds) / 1000
            counts = await ask(self._nodes, *(("ZCOUNT", queue, "-inf", repr(now_ms)) for queue in queues))
            return int(sum(counts))

        counted = await from_each(self._nodes, keys.PARTITION_SLOTS, count, self._settings.socket_timeout_s)
        return sum(found for _, found in counted)
