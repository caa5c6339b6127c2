"""The primaries of a cluster: who serves which slot, and how everything moves along when that changes.

Each primary gets connections of its own. What goes wrong on any of them, and ten quiet seconds, lead to a new look at
the map of slots. When a slot has a new primary, the writers of its streams go to the appender there, which looks up
where they end before it writes; its channels are subscribed to there, and those who listen are told that they may have
missed something; calls that wait are asked again. A slot that is on its way from one primary to another is waited for.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from functools import partial

from redis.exceptions import MovedError, ResponseError

from .addresses import Address, Target
from .appender import Appender
from .connections import Broken, Command, Exchange, Link, Reply, connection_options, make_connection
from .durability import Durability
from .errors import ConfigurationError, LogError, LogUnavailable
from .fitness import check_store
from .keys import FLEET_SLOT, slot
from .lanes import Backoff, Lane, Moved, is_elsewhere, stop
from .node import StoreNode
from .nodes import listened_to
from .scripts import Scripts, refused
from .settings import LogSettings
from .slots import SlotRange, key_of, merged, read_view
from .subscriber import Listener

POLL_S = 10.0
"""How often to look at the map of slots while nothing is wrong."""
HURRY_S = 0.1
"""How soon to look again when something is."""
PATIENCE_S = 1.0
"""How long a node may take to say what it knows of the slots."""
GRACE_S = 0.1
"""How long the others may take once one has said it."""
ASKED = 3
"""How many nodes are asked at a time."""


class ScriptsEverywhere(Scripts):
    """Scripts that are loaded on every primary as soon as one of them lacks them."""

    def __init__(self, nodes: Callable[[], Iterable[StoreNode]]) -> None:
        super().__init__()
        self._nodes = nodes

    async def load(self, exchange: Exchange) -> None:
        """Make every script callable on every primary that answers. Raises: LogError when none does."""
        load = super().load
        loading = (asyncio.wait_for(load(node.calls.run), PATIENCE_S) for node in list(self._nodes()))
        outcomes = await asyncio.gather(*loading, return_exceptions=True)
        failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        for failure in failures:
            if not isinstance(failure, TimeoutError | LogUnavailable | Moved):
                raise failure
        if len(failures) == len(outcomes):
            raise LogUnavailable("no node of the cluster answers")


class ClusterNodes:
    """``Nodes`` of a cluster. Made outside of any event loop, used within one; looks at the map when first used."""

    publish = "SPUBLISH"

    def __init__(self, target: Target, settings: LogSettings) -> None:
        self._settings = settings
        self._seeds = target.addresses
        self._options = {**connection_options(target.url, settings), "db": 0}
        self._nodes: dict[Address, StoreNode] = {}
        self._owners: dict[int, Address] = {}
        self._writing: dict[int, Appender] = {}
        self._moving: set[int] = set()  # slots whose writers are asked to move, and did not yet
        self._silent: dict[Address, float] = {}
        self._hints: set[Address] = set()
        self._refusal: LogError | None = None
        self._hurry = asyncio.Event()
        self._looked = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self.scripts: Scripts = ScriptsEverywhere(self._nodes.values)

    # -- as Nodes --------------------------------------------------------------------------------------------------

    async def calls(self, commands: Sequence[Command]) -> list[Reply]:
        """See ``Nodes``."""
        return await self._run(lambda node: node.calls, commands)

    async def reads(self, commands: Sequence[Command]) -> list[Reply]:
        """See ``Nodes``."""
        return await self._run(lambda node: node.reads, commands)

    async def appender(self, slot: int) -> Appender:
        """See ``Nodes``."""
        if slot not in self._writing:
            await self._mapped(slot)
        return self._writing[slot]

    async def durability(self, slot: int) -> Durability:
        """See ``Nodes``."""
        await self._mapped(slot)
        return self._node_of(slot).durability

    async def grouped(self, slots: Sequence[int]) -> list[list[int]]:
        """See ``Nodes``."""
        await self._mapped()
        groups: defaultdict[Address | None, list[int]] = defaultdict(list)
        for position, one in enumerate(slots):
            groups[self._owners.get(one)].append(position)
        return list(groups.values())

    async def subscribe(self, name: str, listener: Listener) -> None:
        """See ``Nodes``."""
        await self._mapped(_home(name))
        try:
            await self._node_of(_home(name)).subscriber.subscribe(name, listener)
        except BaseException:
            self.unsubscribe(name, listener)  # wherever it is by now
            raise

    def unsubscribe(self, name: str, listener: Listener) -> None:
        """See ``Nodes``."""
        if _home(name) in self._owners:
            self._node_of(_home(name)).subscriber.unsubscribe(name, listener)

    async def listened_to(self, names: Collection[str]) -> set[str]:
        """See ``Nodes``. Subscriptions may be on their way from one node to another, so all nodes are asked."""
        await self._mapped()
        found = await asyncio.gather(*(listened_to(node, names) for node in list(self._nodes.values())))
        return set().union(*found)

    async def check(self) -> None:
        """See ``Nodes``."""
        await self._mapped()
        await asyncio.gather(*(check_store(node.calls.run, self._settings) for node in list(self._nodes.values())))

    async def close(self) -> None:
        """See ``Nodes``."""
        task, self._task = self._task, None
        await stop(task)
        await asyncio.gather(*self._closing, *(node.close() for node in self._nodes.values()))

    # -- asking ----------------------------------------------------------------------------------------------------

    def _node_of(self, slot: int) -> StoreNode:
        return self._nodes[self._owners[slot]]

    async def _run(self, lane: Callable[[StoreNode], Lane], commands: Sequence[Command]) -> list[Reply]:
        """Run each command where its key is; those of one node travel together. Raises: LogUnavailable."""
        loop, backoff = asyncio.get_running_loop(), Backoff(HURRY_S)
        deadline = loop.time() + self._settings.append_timeout_s
        homes = _homes(commands)
        replies: list[Reply] = [None] * len(commands)
        waiting = list(range(len(commands)))
        while waiting:
            await self._mapped(*(homes[n] for n in waiting))
            groups: defaultdict[Address, list[int]] = defaultdict(list)
            for n in waiting:
                groups[self._owners[homes[n]]].append(n)
            asked = [
                self._ask(lane(self._nodes[address]), [commands[n] for n in group]) for address, group in groups.items()
            ]
            waiting, complaint = [], None
            for group, answers in zip(groups.values(), await asyncio.gather(*asked), strict=True):
                for n, answer in zip(group, answers, strict=True):
                    if isinstance(answer, Moved) or is_elsewhere(answer):
                        waiting.append(n)
                        complaint = answer
                    else:
                        replies[n] = answer
            if waiting:
                if loop.time() > deadline:
                    raise LogUnavailable(f"no node of the cluster serves slot {homes[waiting[0]]}: {complaint}")
                await self._after(complaint, backoff)
        return replies

    @staticmethod
    async def _ask(lane: Lane, commands: Sequence[Command]) -> list[Reply]:
        try:
            return await lane.run(commands)
        except Moved as moved:
            return [moved] * len(commands)

    async def _after(self, complaint: Reply, backoff: Backoff) -> None:
        """Wait until asking again may help."""
        self._trouble(complaint)
        if isinstance(complaint, MovedError):
            await self._next_look()
        await backoff.pause()

    # -- the map of slots ------------------------------------------------------------------------------------------

    def _trouble(self, *complaints: Reply) -> None:
        for complaint in complaints:
            if isinstance(complaint, MovedError) and complaint.host:
                self._hints.add((complaint.host, int(complaint.port)))
        self._hurry.set()

    async def _mapped(self, *slots: int) -> None:
        """Return when it is known who serves ``slots``, or anything at all. Raises: LogUnavailable, LogError."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._watch(), name="duplex-es-cluster")
        if self._owners and all(one in self._owners for one in slots):
            return
        deadline = asyncio.get_running_loop().time() + self._settings.append_timeout_s
        while not self._owners or not all(one in self._owners for one in slots):
            self._hurry.set()
            await self._next_look()
            if not self._owners and self._refusal is not None:
                raise self._refusal
            if asyncio.get_running_loop().time() > deadline:
                raise LogUnavailable("no node of the cluster says who serves what")

    async def _next_look(self) -> None:
        """Return after the next look at the map, or soon."""
        try:
            await asyncio.wait_for(self._looked.wait(), PATIENCE_S)
        except TimeoutError:
            return

    async def _watch(self) -> None:
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._hurry.wait(), POLL_S)
            self._hurry.clear()
            hints, self._hints = self._hints, set()
            views = await self._views(hints)
            if owners := merged(views):
                self._nodes |= await self._prepared(set(owners.values()) - self._nodes.keys())
                self._switch(owners)
            looked, self._looked = self._looked, asyncio.Event()
            looked.set()
            await asyncio.sleep(HURRY_S)

    async def _views(self, hints: Collection[Address]) -> list[list[SlotRange]]:
        """What some of the nodes say, at least one of them if any answers; those first who should know best."""
        now_s = asyncio.get_running_loop().time()
        known = [address for address in self._nodes if self._silent.get(address, 0.0) < now_s and address not in hints]
        random.shuffle(known)
        asked = [*hints, *known][: ASKED + len(hints)]
        views = await self._answers(asked)
        if not views:
            others = [address for address in {*self._seeds, *self._nodes} if address not in asked]
            random.shuffle(others)
            for n in range(0, len(others), ASKED):
                if views := await self._answers(others[n : n + ASKED]):
                    break
        return views

    async def _answers(self, addresses: Sequence[Address]) -> list[list[SlotRange]]:
        pending = {asyncio.create_task(self._view_of(address)) for address in addresses}
        views: list[list[SlotRange]] = []
        try:
            while pending:
                done, pending = await asyncio.wait(
                    pending, timeout=GRACE_S if views else PATIENCE_S, return_when=asyncio.FIRST_COMPLETED
                )
                if not done:
                    break
                views += [view for task in done if (view := task.result())]
        finally:
            for task in pending:
                task.cancel()
        return views

    async def _view_of(self, address: Address) -> list[SlotRange] | None:
        """What one node says of the slots; nothing when it does not answer in time."""
        question = [("CLUSTER", "SLOTS"), ("CLUSTER", "NODES")]
        self._silent[address] = asyncio.get_running_loop().time() + 2 * PATIENCE_S  # unless it answers
        try:
            async with asyncio.timeout(PATIENCE_S):
                if node := self._nodes.get(address):
                    slots, nodes = await node.calls.run(question)
                else:
                    slots, nodes = await self._ask_stranger(address, question)
        except ConfigurationError as refusal:
            self._refusal = refusal
            return None
        except (LogError, Broken, TimeoutError):
            return None
        self._silent.pop(address, None)
        if isinstance(slots, ResponseError):
            is_single = "cluster support disabled" in str(slots)
            self._refusal = ConfigurationError("not a cluster: use redis:// for it") if is_single else refused(slots)
            return None
        return read_view(slots, nodes, address)

    async def _ask_stranger(self, address: Address, question: Sequence[Command]) -> list[Reply]:
        link = Link(lambda purpose: make_connection(self._options, purpose, address), "map", self._settings)
        try:
            return await link.exchange(question)
        finally:
            await link.close()

    # -- following changes -----------------------------------------------------------------------------------------

    async def _prepared(self, addresses: Iterable[Address]) -> dict[Address, StoreNode]:
        """New primaries that know the scripts; one that is not reached yet gets them when it is used."""
        nodes = {
            address: StoreNode(
                partial(make_connection, self._options, address=address),
                self._settings,
                by_slot=True,
                trouble=self._trouble,
            )
            for address in addresses
        }
        loading = (asyncio.wait_for(node.scripts.load(node.calls.run), PATIENCE_S) for node in nodes.values())
        await asyncio.gather(*loading, return_exceptions=True)
        return nodes

    def _switch(self, owners: dict[int, Address]) -> None:
        """Let everything follow to ``owners``, in one step. A slot that nobody serves stays where it was."""
        before = self._owners
        self._owners = {**before, **owners}
        left: defaultdict[tuple[Address, Address], set[int]] = defaultdict(set)
        for one, address in owners.items():
            if one in before and before[one] != address:
                left[before[one], address].add(one)
        for (old, new), slots in left.items():
            source, target = self._nodes[old], self._nodes[new]
            names = [name for name in source.subscriber.names() if _home(name) in slots]
            target.subscriber.adopt(source.subscriber.let_go(names))
        for old in {old for old, _ in left}:
            self._nodes[old].hand_back()
        self._move_writers(owners)
        self._retire()

    def _move_writers(self, slots: Iterable[int]) -> None:
        """Bring the writers of ``slots`` to the appenders of their owners, as soon as they can be had."""
        journeys: defaultdict[tuple[Appender, Appender], set[int]] = defaultdict(set)
        for one in slots:
            source, target = self._writing.get(one), self._node_of(one).appender
            if source is None:
                self._writing[one] = target
            elif source is not target and one not in self._moving:
                journeys[source, target].add(one)
        for (source, target), group in journeys.items():
            self._moving |= group
            source.move(group, target, partial(self._moved, group, target))

    def _moved(self, slots: set[int], target: Appender) -> None:
        self._moving -= slots
        self._writing.update(dict.fromkeys(slots, target))
        self._move_writers(slots)  # the owner may have changed meanwhile
        self._retire()

    def _retire(self) -> None:
        """Give back the connections to nodes that serve nothing any more, and that nothing waits for."""
        needed = {id(appender) for appender in self._writing.values()}
        serving = set(self._owners.values())
        for address in [one for one, node in self._nodes.items() if id(node.appender) not in needed]:
            if address not in serving:
                closing = asyncio.get_running_loop().create_task(self._nodes.pop(address).close())
                self._closing.add(closing)
                closing.add_done_callback(self._closing.discard)


def _home(name: str) -> int:
    """The slot at whose node a channel is heard: its own, or that of the fleet where everybody gets to hear it."""
    return slot(name) if "{" in name else FLEET_SLOT


def _homes(commands: Sequence[Command]) -> list[int]:
    """The slot of each command; one without a key goes with the first that has one."""
    found = [None if (key := key_of(command)) is None else slot(key) for command in commands]
    other = next((one for one in found if one is not None), FLEET_SLOT)
    return [other if one is None else one for one in found]
