"""One primary of the store, and the four connections that this process holds to it, five once it asks what is safe."""

from __future__ import annotations

import asyncio

from .appender import Appender
from .connections import ConnectionFactory, Link
from .durability import Durability
from .lanes import Lane, Trouble, nobody_minds
from .scripts import Scripts
from .settings import LogSettings
from .subscriber import Subscriber


class StoreNode:
    """Appends, calls, reads of history and subscriptions of one node, each on a connection of its own.

    ``by_slot`` is for a node that shares the slots of a cluster with others: what is published is sharded then.
    ``trouble`` is called whenever the node does not do as it should.
    """

    def __init__(
        self,
        connect: ConnectionFactory,
        settings: LogSettings,
        *,
        by_slot: bool = False,
        trouble: Trouble = nobody_minds,
    ) -> None:
        self.publish = "SPUBLISH" if by_slot else "PUBLISH"
        self.scripts = Scripts()
        call, read = (Link(connect, purpose, settings, self._renewed) for purpose in ("call", "read"))
        self.calls = Lane(call, settings, by_slot=by_slot, trouble=trouble)
        self.reads = Lane(read, settings, by_slot=by_slot, trouble=trouble)
        self.appender = Appender(
            Link(connect, "append", settings), self.scripts, settings, self.publish, by_slot=by_slot, trouble=trouble
        )
        self.durability = Durability(Link(connect, "vouch", settings), self.scripts, settings, trouble=trouble)
        self.subscriber = Subscriber(
            connect, settings, by_slot=by_slot, trouble=trouble, renewed=self._renewed
        )

    def _renewed(self) -> None:
        """Another connection broke and was replaced: the store may have been started anew, without its tail."""
        self.appender.suspect()

    def doubt(self) -> None:
        """Make every connection anew before it is used again: they may lead to the wrong place."""
        for part in (self.appender, self.calls, self.reads, self.durability, self.subscriber):
            part.doubt()

    def hand_back(self) -> None:
        """End every call that waits in ``Moved``: some of the slots are another node's now."""
        self.calls.hand_back()
        self.reads.hand_back()
        self.durability.hand_back()

    async def close(self) -> None:
        """Give back every connection; whoever still waits for an answer is told."""
        parts = (self.appender, self.calls, self.reads, self.durability, self.subscriber)
        await asyncio.gather(*(part.close() for part in parts))
