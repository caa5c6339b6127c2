"""A primary that sentinels choose: they are asked before every connection, and again and again while it holds.

A demoted primary may live on, and answer: what it is given then is lost. So a connection is not left alone once it is
made. All sentinels are asked together, and of contradicting answers the one of the higher epoch counts, as among them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from redis.asyncio.connection import AbstractConnection
from redis.exceptions import ConnectionError, ResponseError

from .addresses import Address, Target
from .connections import Broken, Link, Reply, connection_options, make_connection
from .errors import ConfigurationError
from .lanes import nobody_minds, stop
from .nodes import OneNode
from .settings import LogSettings

WATCH_S = 1.0
"""How often the sentinels are asked while nothing is wrong."""
HURRY_S = 0.1
"""How soon they are asked again when something is."""
GRACE_S = 0.2
"""How long the other sentinels may take once one has answered."""


class Sentinels:
    """The sentinels of one service. ``named`` is the primary that they named last.

    ``moved`` is called when that is another one than the time before.
    """

    def __init__(self, target: Target, settings: LogSettings) -> None:
        self._service = target.service
        self._patience_s = settings.connect_timeout_s / 2
        options = connection_options(target.sentinel_url, settings)
        options["db"] = 0
        self._links = [
            Link(lambda purpose, at=address: make_connection(options, purpose, at), "sentinel", settings)  # type: ignore[misc]
            for address in target.addresses
        ]
        self._locks = [asyncio.Lock() for _ in self._links]
        self._question: asyncio.Task[Address] | None = None
        self.named: Address | None = None
        self.moved = nobody_minds

    async def primary(self) -> Address:
        """Where the primary is. Those who ask at the same time share the question.

        Raises: ConnectionError when no sentinel answers, ConfigurationError when none knows the service.
        """
        if self._question is None or self._question.done():
            self._question = asyncio.get_running_loop().create_task(self._ask(), name="duplex-es-sentinel")
            # Whoever asked may have been cancelled meanwhile.
            self._question.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(self._question)

    async def close(self) -> None:
        """Give back every connection."""
        await stop(self._question)  # type: ignore[arg-type]
        for link in self._links:
            await link.close()

    async def _ask(self) -> Address:
        asked = {asyncio.create_task(self._answer_of(n)) for n in range(len(self._links))}
        try:
            done = await _answered(asked, self._patience_s)
        finally:
            for task in asked:
                task.cancel()
        if not (named := _names(done)):
            refusals = [answer for task in done if isinstance(answer := task.result(), ConfigurationError)]
            if refusals:
                raise refusals[0]
            raise ConnectionError(f"no sentinel answers for {self._service}")
        _, address = max(named)
        before, self.named = self.named, address
        if before not in (None, address):
            self.moved()
        return address

    async def _answer_of(self, n: int) -> _Answer:
        """Epoch and address of the primary according to one sentinel, or why it says none."""
        try:
            async with self._locks[n]:
                (fields,) = await self._links[n].exchange([("SENTINEL", "MASTER", self._service)])
        except Broken:
            return None
        except ConfigurationError as refusal:
            return refusal
        if isinstance(fields, ResponseError):
            return ConfigurationError(f"the sentinels do not know {self._service}: {fields}")
        known = _pairs(fields)
        return int(known.get("config-epoch", "0")), (known["ip"], int(known["port"]))


class SentinelNode(OneNode):
    """``OneNode`` that is whichever server the sentinels call the primary."""

    def __init__(self, target: Target, settings: LogSettings) -> None:
        self.sentinels = Sentinels(target, settings)
        self._options = connection_options(target.url, settings)
        self._hurry = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        super().__init__(self.connect, settings, trouble=self._trouble)
        self.sentinels.moved = lambda *_: self.node.doubt()

    async def connect(self, purpose: str) -> AbstractConnection:
        """A connection to the primary, which it is found to be. Raises: what redis-py raises, ConfigurationError."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._watch(), name="duplex-es-sentinel-watch")
        address = await self.sentinels.primary()
        connection = make_connection(self._options, purpose, address)
        try:
            await connection.connect()  # type: ignore[no-untyped-call]
            # INFO says what ROLE does, and users need the permission for it anyway.
            await connection.send_command("INFO", "replication")
            if b"role:master" not in bytes(await connection.read_response()):
                raise ConnectionError(f"{address[0]}:{address[1]} is not the primary yet, or not any more")
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        return connection

    async def close(self) -> None:
        """See ``Nodes``."""
        task, self._task = self._task, None
        await stop(task)
        await super().close()
        await self.sentinels.close()

    def _trouble(self, *complaints: Reply) -> None:
        self._hurry.set()

    async def _watch(self) -> None:
        while True:
            try:
                await asyncio.wait_for(self._hurry.wait(), WATCH_S)
                await asyncio.sleep(HURRY_S)
            except TimeoutError:
                pass
            self._hurry.clear()
            try:
                await self.sentinels.primary()
            except (ConnectionError, ConfigurationError):
                continue  # whoever wants to connect is told


_Answer = tuple[int, Address] | ConfigurationError | None


async def _answered(asked: set[asyncio.Task[_Answer]], patience_s: float) -> set[asyncio.Task[_Answer]]:
    """Those of ``asked`` that answer in time: after the first useful answer, the others have little left."""
    loop = asyncio.get_running_loop()
    deadline_s, done, pending = loop.time() + patience_s, set[asyncio.Task[_Answer]](), asked
    while pending and (left_s := deadline_s - loop.time()) > 0:
        newly, pending = await asyncio.wait(pending, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
        done |= newly
        if _names(newly):
            deadline_s = min(deadline_s, loop.time() + GRACE_S)
    return done


def _names(done: set[asyncio.Task[_Answer]]) -> Sequence[tuple[int, Address]]:
    return [answer for task in done if isinstance(answer := task.result(), tuple)]


def _pairs(fields: Reply) -> dict[str, str]:
    """The fields of a sentinel's answer, whether RESP 2 or 3 shaped it."""
    pairs = fields.items() if isinstance(fields, dict) else zip(fields[::2], fields[1::2], strict=True)
    return {name.decode(): value.decode() for name, value in pairs}
