"""One subscriber connection per node: many channels, confirmed subscriptions, and a probe for silence.

A pub/sub connection can look healthy and be deaf. One that was silent for a while publishes to a channel of its own;
when that does not come back in time, twice, the connection is replaced. After every reconnect each listener is told
that it may have missed something.

On a cluster, channels with a hash tag are sharded: their messages stay within the node that serves their slot, one
command may only name channels of one slot, and they are taken away when the slot leaves. Then they move, with those who
listen, to the subscriber of the slot's new node.
"""

from __future__ import annotations

import asyncio
import math
import secrets
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from redis.asyncio.connection import AbstractConnection
from redis.exceptions import AskError, RedisError, ResponseError

from .connections import Broken, Command, ConnectionFactory, Link, Reply, pack
from .errors import LogError, LogUnavailable
from .keys import probe_channel, slot
from .lanes import Backoff, Trouble, is_elsewhere, nobody_minds, stop
from .scripts import refused
from .settings import LogSettings

CHANNELS_PER_COMMAND = 256
ANEW_S = 0.2
"""How soon to subscribe anew to what the node would not have, or took away."""


class Listener(Protocol):
    """Hears a channel. Both methods return at once; neither raises."""

    def received(self, data: bytes) -> None:
        """A notification arrived."""

    def resumed(self) -> None:
        """The subscription was interrupted and holds again; notifications may be lost."""


@dataclass(slots=True)
class Channel:
    """Who listens to a channel, and whether the store knows."""

    listeners: list[Listener] = field(default_factory=list)
    confirmed: bool = False
    interrupted: bool = False
    waiters: list[asyncio.Future[None]] = field(default_factory=list)


class Subscriber:
    """Every subscription of this process to one node. ``reconnects`` counts replaced connections."""

    def __init__(
        self,
        connect: ConnectionFactory,
        settings: LogSettings,
        *,
        by_slot: bool = False,
        trouble: Trouble = nobody_minds,
        renewed: Callable[[], None] = lambda: None,
    ) -> None:
        """``by_slot`` is for a node of a cluster; ``trouble`` is called when it does not do as it should, ``renewed``
        when the connection had to be replaced.
        """
        self._link = Link(connect, "subscribe", settings, renewed)
        self._settings = settings
        self._by_slot = by_slot
        self._trouble = trouble
        self._channels: dict[bytes, Channel] = {}
        self._outbox: list[Command] = []
        self._unanswered: Counter[bytes] = Counter()
        self._wake = asyncio.Event()
        self._probe = probe_channel(secrets.token_hex(8)).encode()
        self._heard = 0.0
        self._misses = 0
        self._answered = False
        self._is_doubtful = False
        self._refused: set[bytes] = set()
        self._task: asyncio.Task[None] | None = None
        self.reconnects = 0

    async def subscribe(self, name: str, listener: Listener) -> None:
        """Return once the store confirmed that ``listener`` hears what is published from now on.

        Raises: LogUnavailable, ConfigurationError.
        """
        key = name.encode()
        channel = self._channels.get(key)
        if channel is None:
            channel = self._channels[key] = Channel()
            self._send(self._subscriptions([key]))
        channel.listeners.append(listener)
        self._run()
        if channel.confirmed:
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        channel.waiters.append(waiter)
        try:
            async with asyncio.timeout(self._settings.append_timeout_s):
                await waiter
        except TimeoutError:
            self.unsubscribe(name, listener)
            raise LogUnavailable(f"the subscription to {name} was not confirmed in time") from None
        except BaseException:
            self.unsubscribe(name, listener)
            raise

    def unsubscribe(self, name: str, listener: Listener) -> None:
        """``listener`` hears nothing of this channel any more. Idempotent."""
        channel = self._channels.get(name.encode())
        if channel is None or listener not in channel.listeners:
            return
        channel.listeners.remove(listener)
        if not channel.listeners:
            del self._channels[name.encode()]
            self._send([("SUNSUBSCRIBE" if self._is_sharded(name.encode()) else "UNSUBSCRIBE", name.encode())])

    def doubt(self) -> None:
        """The connection may lead to the wrong place: replace it."""
        self._is_doubtful = True
        self._wake.set()

    def names(self) -> list[str]:
        """Every channel that somebody listens to."""
        return [name.decode() for name in self._channels]

    def let_go(self, names: Collection[str]) -> dict[bytes, Channel]:
        """Listen to these no more, and return who did."""
        keys = [name.encode() for name in names if name.encode() in self._channels]
        self._send([("UNSUBSCRIBE", key) for key in keys if not self._is_sharded(key)])
        for key in keys:
            self._unanswered.pop(key, None)
        return {key: self._channels.pop(key) for key in keys}

    def adopt(self, channels: Mapping[bytes, Channel]) -> None:
        """Listen for those who listened elsewhere so far; they hear ``resumed`` once that is confirmed."""
        for channel in channels.values():
            channel.interrupted = channel.interrupted or channel.confirmed
            channel.confirmed = False
        for name in channels:
            self._unanswered.pop(name, None)
        self._channels.update(channels)
        self._send(self._subscriptions(channels))
        self._run()

    async def close(self) -> None:
        """Stop, and close the connection."""
        task, self._task = self._task, None
        await stop(task)
        await self._link.close()

    # -- the tasks that own the connection -------------------------------------------------------------------------

    def _run(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._serve(), name="duplex-es-subscriber")

    def _send(self, commands: Iterable[Command]) -> None:
        self._outbox += commands
        self._wake.set()

    def _is_sharded(self, name: bytes) -> bool:
        return self._by_slot and b"{" in name

    def _subscriptions(self, names: Iterable[bytes]) -> list[Command]:
        """The commands that subscribe to ``names``, in as few as the store allows."""
        groups: defaultdict[int, list[bytes]] = defaultdict(list)
        for name in names:
            groups[slot(name.decode()) if self._is_sharded(name) else -1].append(name)
        return [
            ("SUBSCRIBE" if group < 0 else "SSUBSCRIBE", *together[n : n + CHANNELS_PER_COMMAND])
            for group, together in groups.items()
            for n in range(0, len(together), CHANNELS_PER_COMMAND)
        ]

    async def _serve(self) -> None:
        backoff = Backoff()
        try:
            while True:
                try:
                    await self._serve_connection()
                except (Broken, RedisError, OSError):
                    self.reconnects += 1
                    self._trouble()
                except LogError as refusal:
                    self._fail_waiters(refusal)
                await self._link.close()
                if self._answered:
                    backoff.reset()
                await backoff.pause()
        finally:
            self._fail_waiters(LogUnavailable("the log is closed"))

    async def _serve_connection(self) -> None:
        self._misses, self._answered, self._is_doubtful = 0, False, False
        connection = await self._link.ensure()
        # redis-py's own handler formats every message for a debug log that nobody reads.
        connection._parser.set_pubsub_push_handler(_as_it_is)  # type: ignore[attr-defined]
        self._heard = asyncio.get_running_loop().time()
        self._unanswered.clear()
        self._refused.clear()
        self._outbox = self._subscriptions([self._probe, *self._channels])
        self._wake.set()
        loop = asyncio.get_running_loop()
        both = [loop.create_task(self._read(connection)), loop.create_task(self._write(connection))]
        try:
            done, _ = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._interrupt()
            for task in both:
                await stop(task)
        for task in done:
            task.result()

    def _interrupt(self) -> None:
        for channel in self._channels.values():
            channel.interrupted = channel.interrupted or channel.confirmed
            channel.confirmed = False

    async def _read(self, connection: AbstractConnection) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                reply = await connection.read_response(push_request=True, timeout=math.inf)
            except ResponseError as refusal:
                if not is_elsewhere(refusal):
                    raise refused(refusal) from refusal
                self._redirected(refusal)
                continue
            self._heard, self._misses, self._answered = loop.time(), 0, True
            if isinstance(reply, list) and len(reply) == 3:
                self._take(reply)

    def _take(self, reply: list[Reply]) -> None:
        kind, name, data = reply
        channel = self._channels.get(name)
        if kind in (b"message", b"smessage"):
            for listener in channel.listeners if channel else ():
                listener.received(data)
        elif kind in (b"subscribe", b"ssubscribe"):
            self._unanswered[name] -= 1
            # A channel that was left and joined again in a hurry is confirmed by the last answer only.
            if self._unanswered[name] <= 0:
                del self._unanswered[name]
                if channel:
                    self._confirm(channel)
        elif kind == b"sunsubscribe" and channel and self._unanswered[name] <= 0:
            # Nobody asked for that: its slot has left this node.
            self._lose({name: channel})
            self._trouble()

    def _redirected(self, complaint: ResponseError) -> None:
        """A subscription was refused, as this node does not serve the slot; the reply says at most which slot."""
        where = complaint.slot_id if isinstance(complaint, AskError) else None
        self._lose(
            {
                name: channel
                for name, channel in self._channels.items()
                if self._is_sharded(name) and where in (None, slot(name.decode())) and not channel.confirmed
            }
        )
        self._trouble(complaint)

    def _lose(self, channels: Mapping[bytes, Channel]) -> None:
        """Note that these are not subscribed to, and try again in a moment if they are still ours by then."""
        for name, channel in channels.items():
            channel.interrupted = channel.interrupted or channel.confirmed
            channel.confirmed = False
            self._unanswered.pop(name, None)
        if channels and not self._refused:
            asyncio.get_running_loop().call_later(ANEW_S, self._try_again)
        self._refused |= channels.keys()

    def _try_again(self) -> None:
        names = [name for name in self._refused if (channel := self._channels.get(name)) and not channel.confirmed]
        self._refused.clear()
        self._send(self._subscriptions(names))

    @staticmethod
    def _confirm(channel: Channel) -> None:
        channel.confirmed = True
        waiters, channel.waiters = channel.waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
        if channel.interrupted:
            channel.interrupted = False
            for listener in list(channel.listeners):
                listener.resumed()

    async def _write(self, connection: AbstractConnection) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._patience_s()):
                    await self._wake.wait()
            self._wake.clear()
            if self._is_doubtful:
                raise Broken("the connection may lead to the wrong place", [])
            commands, self._outbox = self._outbox, []
            if not commands:
                if not self._misses and self._patience_s() > 0:
                    continue
                if self._misses == 2:
                    raise Broken("the subscription is deaf", [])
                self._misses += 1
                commands = [("PUBLISH", self._probe, b"")]
            self._count(commands)
            async with asyncio.timeout(self._settings.socket_timeout_s):
                await connection.send_packed_command(pack(commands), check_health=False)

    def _patience_s(self) -> float:
        """How long to listen before the next probe; short once one went unanswered."""
        if self._misses:
            return self._settings.socket_timeout_s
        return self._heard + self._settings.probe_interval_s - asyncio.get_running_loop().time()

    def _count(self, commands: Sequence[Command]) -> None:
        for verb, *names in commands:
            if verb in ("SUBSCRIBE", "SSUBSCRIBE"):
                self._unanswered.update(names)  # type: ignore[arg-type]

    def _fail_waiters(self, error: BaseException) -> None:
        for channel in self._channels.values():
            for waiter in channel.waiters:
                if not waiter.done():
                    waiter.set_exception(error)
            channel.waiters.clear()


async def _as_it_is(reply: Reply) -> Reply:
    return reply
