"""Seeing a worker die, long before its claims run out.

Every worker listens to a channel of its own, on the connection that all its subscriptions share. When its process ends,
however it ends, the store sees that connection close and has no listener there any more. The other workers look, and
put the sessions of one that stays away back into the queue. This only saves time: a worker that was given up wrongly is
fenced like any other, and one whose machine vanished without closing anything is found by its leases.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable

from . import keys
from .api import SessionRef
from .errors import ConfigurationError, LogError
from .keys import PARTITIONS, SessionKeys
from .lanes import stop
from .nodes import Nodes, ask
from .packing import unpack_card
from .ready import announcement
from .scripts import session_call
from .settings import LogSettings

MISSES = 3
"""Looks in a row that must find nobody: a listener that only reconnects is back within one."""
QUIET_S = 3.0
"""After the own subscriptions were interrupted: what broke them may have broken those of others."""
BURYING_MS = 5_000

_log = logging.getLogger(__name__)


class WorkerWatch:
    """Stands for the workers of this process, and watches those of others while it stands for any.

    A worker counts as gone if it said that it stands on a channel, and was missing there ``MISSES`` times in a row.
    """

    def __init__(
        self,
        nodes: Nodes,
        settings: LogSettings,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._nodes = nodes
        self._settings = settings
        self._clock = clock
        self._own: set[str] = set()
        self._misses: Counter[str] = Counter()
        self._quiet_until_s = 0.0
        self._task: asyncio.Task[None] | None = None

    async def stand_for(self, worker: str) -> None:
        """Listen on the worker's channel from now on, and watch the others. Idempotent. Raises: LogUnavailable."""
        if worker in self._own:
            return
        self._own.add(worker)
        try:
            await self._nodes.subscribe(keys.alive_channel(worker), self)
        except BaseException:
            self._own.discard(worker)
            raise
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._watch(), name="duplex-es-watch")

    def leave(self, worker: str) -> None:
        """The worker said goodbye. Idempotent."""
        if worker in self._own:
            self._own.discard(worker)
            self._nodes.unsubscribe(keys.alive_channel(worker), self)

    async def close(self) -> None:
        """Watch no more."""
        task, self._task = self._task, None
        await stop(task)
        self._own.clear()

    # -- as a listener ---------------------------------------------------------------------------------------------

    def received(self, data: bytes) -> None:
        """Nothing is ever published there."""

    def resumed(self) -> None:
        """The own connection was replaced: others may be doing the same right now."""
        self._misses.clear()
        self._quiet_until_s = self._clock() + QUIET_S

    # -- watching --------------------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self._settings.watch_interval_s * random.uniform(0.8, 1.2))
            try:
                await self.look()
            except ConfigurationError as error:
                _log.warning("workers that die are found by their leases only: %s", error)
                return
            except LogError as error:
                _log.info("could not look which workers are there: %s", error)
                self._misses.clear()

    async def look(self) -> None:
        """Count once who listens; bury those who stayed away. Raises: LogError."""
        (names,) = await ask(self._nodes, ("SMEMBERS", keys.WATCHED))
        others = sorted({name.decode() for name in names} - self._own)
        if not others:
            return
        listened_to = await self._nodes.listened_to([keys.alive_channel(worker) for worker in (*others, *self._own)])
        present = {worker for worker in (*others, *self._own) if keys.alive_channel(worker) in listened_to}
        if self._clock() < self._quiet_until_s:
            return
        if not self._own <= present:
            # Whoever does not see itself cannot tell who is away: subscriptions are on their way to another node.
            self._misses.clear()
            return
        self._misses = Counter({worker: self._misses[worker] + 1 for worker in others if worker not in present})
        for worker in [worker for worker, misses in self._misses.items() if misses >= MISSES]:
            del self._misses[worker]
            await self._bury(worker)

    async def _bury(self, worker: str) -> None:
        """Put the sessions of ``worker`` back into their queues, and forget its card. One process does it for all."""
        lock = ("SET", keys.burial(worker), "1", "NX", "PX", BURYING_MS)
        won, packed = await ask(self._nodes, lock, ("GET", keys.card(worker)))
        if won is None:
            return
        if packed is None:  # its leases are over, too
            await ask(self._nodes, ("SREM", keys.WATCHED, worker))
            return
        held = await self._claimed_by(worker, unpack_card(packed).models)
        calls = [
            session_call(
                "abandon",
                session := SessionKeys.of(ref),
                model,
                incarnation=ref.incarnation,
                worker=worker,
                member=session.member,
                announcement=announcement(session.partition, model),
            )
            for ref, model in held
        ]
        replies = await self._nodes.scripts.run(self._nodes.calls, calls) if calls else []
        freed = sum(reply for reply in replies if isinstance(reply, int))  # the others have their leases
        await ask(self._nodes, ("DEL", keys.card(worker)), *(("SREM", names, worker) for names in keys.FLEET_SETS))
        _log.warning("worker %s is gone: %d sessions wait for another", worker, freed)

    async def _claimed_by(self, worker: str, models: Iterable[str]) -> list[tuple[SessionRef, str]]:
        queues = [(partition, model) for model in models for partition in range(PARTITIONS)]
        listed = await ask(self._nodes, *(("ZRANGE", keys.ready(*queue), 0, -1) for queue in queues))
        queued = [
            (keys.parse_member(member.decode()), model)
            for (_, model), members in zip(queues, listed, strict=True)
            for member in members
        ]
        if not queued:
            return []
        owners = await ask(self._nodes, *(("HGET", keys.head(ref.session_id), "worker") for ref, _ in queued))
        return [one for one, owner in zip(queued, owners, strict=True) if owner == worker.encode()]
