"""What the log asks of the store as a whole, however many primaries it has."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Protocol, TypeVar

from redis.exceptions import ResponseError

from .appender import Appender
from .connections import Command, ConnectionFactory, Reply
from .durability import Durability
from .errors import ConfigurationError, LogUnavailable
from .fitness import check_store
from .lanes import Trouble, nobody_minds
from .node import StoreNode
from .scripts import Scripts, refused
from .settings import LogSettings
from .subscriber import Listener


class Nodes(Protocol):
    """The primaries of a store. ``publish`` is how scripts and appends announce something, ``scripts`` calls them.

    ``calls`` and ``reads`` run commands where their keys are, the second for long answers. Each keyed command may
    name keys of one slot only. One without a key goes where the first keyed command of the same pipeline goes, else
    to whichever node keeps the fleet.
    """

    publish: str
    scripts: Scripts

    async def calls(self, commands: Sequence[Command]) -> list[Reply]:
        """The replies in order, error replies as values. Raises: LogUnavailable, ConfigurationError."""

    async def reads(self, commands: Sequence[Command]) -> list[Reply]:
        """As ``calls``, on connections that long answers may keep busy."""

    async def appender(self, slot: int) -> Appender:
        """Who appends to the streams of ``slot`` now; to be used before anything else is awaited.

        Raises: LogUnavailable.
        """

    async def durability(self, slot: int) -> Durability:
        """Who knows what of ``slot`` would survive. Raises: LogUnavailable."""

    async def grouped(self, slots: Sequence[int]) -> list[list[int]]:
        """The positions in ``slots``, those together that one node serves. Raises: LogUnavailable."""

    async def subscribe(self, name: str, listener: Listener) -> None:
        """As ``Subscriber``: names with a hash tag are heard where their slot is."""

    def unsubscribe(self, name: str, listener: Listener) -> None:
        """As ``Subscriber``."""

    async def listened_to(self, names: Collection[str]) -> set[str]:
        """Those channels without a hash tag that somebody listens to, on any node. Raises: LogError."""

    async def check(self) -> None:
        """Return when every primary can keep the promises. Raises: ConfigurationError, LogUnavailable."""

    async def close(self) -> None:
        """Give back every connection."""


class OneNode:
    """``Nodes`` of which there is one: a single server, or whichever the sentinels call the primary."""

    def __init__(
        self, connect: ConnectionFactory, settings: LogSettings, *, trouble: Trouble = nobody_minds
    ) -> None:
        self._settings = settings
        self.node = StoreNode(connect, settings, trouble=trouble)
        self.publish = self.node.publish
        self.scripts = self.node.scripts
        self.calls = self.node.calls.run
        self.reads = self.node.reads.run
        self.subscribe = self.node.subscriber.subscribe
        self.unsubscribe = self.node.subscriber.unsubscribe

    async def appender(self, slot: int) -> Appender:
        """See ``Nodes``."""
        return self.node.appender

    async def durability(self, slot: int) -> Durability:
        """See ``Nodes``."""
        return self.node.durability

    async def grouped(self, slots: Sequence[int]) -> list[list[int]]:
        """See ``Nodes``."""
        return [list(range(len(slots)))]

    async def listened_to(self, names: Collection[str]) -> set[str]:
        """See ``Nodes``."""
        return await listened_to(self.node, names)

    async def check(self) -> None:
        """See ``Nodes``."""
        await check_store(self.calls, self._settings)
        (info,) = await self.calls([("CLUSTER", "INFO")])
        if not isinstance(info, ResponseError):  # a single server refuses the question
            raise ConfigurationError("this server is a node of a cluster: use redis+cluster:// for it")

    async def close(self) -> None:
        """See ``Nodes``."""
        await self.node.close()


async def listened_to(node: StoreNode, names: Collection[str]) -> set[str]:
    """Those of ``names`` that somebody listens to on ``node``. Raises: LogError."""
    (counts,) = checked(await node.calls.run([("PUBSUB", "NUMSUB", *names)]))
    # RESP 2 and 3 shape the answer differently.
    pairs = counts.items() if isinstance(counts, dict) else zip(counts[::2], counts[1::2], strict=True)
    return {name.decode() for name, count in pairs if int(count) > 0}


T = TypeVar("T")


async def from_each(
    nodes: Nodes, slots: Sequence[int], ask: Callable[[list[int]], Awaitable[T]], patience_s: float
) -> list[tuple[list[int], T]]:
    """What ``ask`` finds out about the positions in ``slots`` that one node serves, for each node.

    Of several nodes, those that do not answer within ``patience_s`` are left out. Raises: LogError when none does.
    """
    groups = await nodes.grouped(slots)
    if len(groups) == 1:
        return [(groups[0], await ask(groups[0]))]
    found = await asyncio.gather(*(_in_time(ask(group), patience_s) for group in groups), return_exceptions=True)
    answers: list[tuple[list[int], T]] = []
    for group, answer in zip(groups, found, strict=True):
        if isinstance(answer, BaseException):
            if not isinstance(answer, LogUnavailable):
                raise answer
        else:
            answers.append((group, answer))
    if groups and not answers:
        raise LogUnavailable("no node of the store answers")
    return answers


async def _in_time(answer: Awaitable[T], patience_s: float) -> T:
    try:
        return await asyncio.wait_for(answer, patience_s)
    except TimeoutError:
        raise LogUnavailable(f"no answer in {patience_s} s") from None


async def ask(nodes: Nodes, *commands: Command) -> list[Reply]:
    """The replies to commands that are not expected to be refused. Raises: LogError."""
    return checked(await nodes.calls(commands))


def checked(replies: list[Reply]) -> list[Reply]:
    """``replies``, none of which is a refusal. Raises: LogError."""
    for reply in replies:
        if isinstance(reply, ResponseError):
            raise refused(reply)
    return replies
