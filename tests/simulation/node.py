"""One Redis node over a network that loses, delays and cuts: what the log's connections lead to.

A connection offers the part of redis-py's ``AbstractConnection`` that the log uses. What was sent still arrives after
its sender closed or died, as on a real network; what a cut takes away is drawn.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections import deque
from collections.abc import Callable
from typing import Any

from redis.exceptions import BusyLoadingError, RedisError
from redis.exceptions import ConnectionError as StoreLost

from .loop import CURRENT, Process, SimulatedLoop
from .lua import SCRIPTING
from .store import WRITES, Reply, Store, Words, run
from .streams import Refused
from .wire import error_reply, parse, shaped
from .world import EPOCH_S

Trace = Callable[..., None]
_CONTROL = re.compile(rb"r \d+-0 ")


class Connection:
    """One connection of a process; made by the factory that ``Node.factory`` gives to a log."""

    def __init__(self, node: Node, purpose: str) -> None:
        self.node = node
        self.purpose = purpose
        self.owner = CURRENT.get()
        self.connected = False
        self.cut = False
        self.severed = False
        """The node knows it no more: what still arrives over it is nobody's."""
        self.deaf_until_s = 0.0
        self.channels: dict[bytes, None] = {}
        self.queued: list[Words] | None = None
        self.spoilt = False
        self.sent_until_s = 0.0
        self.heard_until_s = 0.0
        self._replies: deque[Reply] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._parser = self
        self.number = node.connections_made = node.connections_made + 1

    @property
    def is_connected(self) -> bool:
        """Whether it may be used."""
        return self.connected and not self.cut

    def set_pubsub_push_handler(self, handler: Any) -> None:
        """Pushes are read as they are."""

    async def connect(self) -> None:
        """Reach the node. Raises: redis's ConnectionError."""
        loop = self.node.loop
        await asyncio.sleep(self.node.latency_s(self.owner))
        while self.node.frozen_until_s > loop.time():
            await asyncio.sleep(self.node.frozen_until_s - loop.time())
        if not self.node.reachable(self.owner):
            raise StoreLost("Connection refused")
        if self.node.complaint is not None and self.node.complaint.startswith(b"LOADING"):
            raise BusyLoadingError("Valkey is loading the dataset in memory")
        self.connected = True
        self.node.connections[self] = None

    async def send_packed_command(self, data: Any, check_health: bool = True) -> None:
        """Send a pipeline. Raises: redis's ConnectionError."""
        if not self.is_connected:
            raise StoreLost("Connection closed by server.")
        self.node.send(self, parse(data if isinstance(data, bytes) else b"".join(data)))

    async def read_response(self, *args: Any, **kwargs: Any) -> Reply:
        """The next reply or push. Raises: ResponseError for an error reply, redis's ConnectionError."""
        while not self._replies:
            if not self.is_connected:
                raise StoreLost("Connection closed by server.")
            self._waiter = self.node.loop.create_future()
            await self._waiter
        reply = self._replies.popleft()
        if isinstance(reply, RedisError):
            raise reply
        return reply

    async def disconnect(self, nowait: bool = False) -> None:
        """Close; what was sent is on its way."""
        self.connected = False
        self._replies.clear()
        self.node.left(self)

    # -- from the network ----------------------------------------------------------------------------------------------

    def arrived(self, replies: list[Reply]) -> None:
        """Replies reach the process."""
        if self.is_connected:
            self._replies.extend(replies)
            self._wake()

    def break_off(self) -> None:
        """The process finds the connection closed."""
        self.cut = True
        self._replies.clear()
        self._wake()

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)


class Node:
    """The node, its data, and everybody's way there. Faults are methods; ``trace`` hears of everything."""

    def __init__(
        self, loop: SimulatedLoop, draw: random.Random, trace: Trace, *, forbids_functions: bool = False
    ) -> None:
        self.loop = loop
        self.draw = draw
        self.trace = trace
        self.forbids_functions = forbids_functions
        self.store = Store(self._publish)
        self.store.script = call_function
        self.store.begun_ms = self.now_ms() - 86_400_000.0
        self.connections: dict[Connection, None] = {}
        self.connections_made = 0
        self.scripts: set[str] = set()
        self.frozen_until_s = 0.0
        self.complaint: bytes | None = None
        self.down = False
        self.parted: dict[Process, None] = {}
        self.slow: dict[Process, float] = {}
        self.pace_s = (0.0001, 0.001)
        self.lose_next: dict[Process, tuple[str, str]] = {}
        self.skip_notifications: dict[Process, int] = {}
        self.confirmed = 0
        self.losses = 0
        self.restarts = 0
        self.lost_at_s = 0.0
        self.lost_more = False
        """Whether anything was lost that is no append: that cannot be written again."""
        self._backlog: list[tuple[Connection, list[Words]]] = []
        self._network = loop.outside.context

    def factory(self, *_: Any, **__: Any) -> Callable[..., Any]:
        """What a ``RedisLog`` is made with."""
        return lambda purpose="", *_, **__: Connection(self, str(purpose))

    # -- the network ---------------------------------------------------------------------------------------------------

    def latency_s(self, process: Process) -> float:
        """One way to or from a process."""
        low, high = self.pace_s
        return low + (high - low) * self.draw.random() + self.slow.get(process, 0.0) * self.draw.random()

    def reachable(self, process: Process) -> bool:
        """Whether a new connection gets through."""
        return not self.down and process not in self.parted

    def send(self, connection: Connection, commands: list[Words]) -> None:
        """A pipeline leaves its process."""
        owner = connection.owner
        if owner in self.parted:
            return
        fate, purpose = self.lose_next.get(owner, ("", ""))
        if fate and (not purpose or purpose in connection.purpose):
            del self.lose_next[owner]
            self.trace("lost", owner.name, connection.purpose, fate)
            if fate == "reply":
                connection.deaf_until_s = self.loop.time() + 60.0
                self._cut_soon(connection)
            else:
                commands = commands[: self.draw.randrange(len(commands))] if fate == "part" else []
                self._cut_soon(connection)
        at = max(self.loop.time() + self.latency_s(owner), connection.sent_until_s)
        connection.sent_until_s = at
        if len(commands) > 1 and self.draw.random() < 0.1:
            split = self.draw.randrange(1, len(commands))
            self.loop.call_at(at, self._arrive, connection, commands[:split], context=self._network)
            at = connection.sent_until_s = at + self.latency_s(owner)
            commands = commands[split:]
        if commands:
            self.loop.call_at(at, self._arrive, connection, commands, context=self._network)

    def _cut_soon(self, connection: Connection) -> None:
        delay_s = self.draw.choice((0.002, 0.02, 0.3))
        self.loop.call_at(self.loop.time() + delay_s, self.cut, connection, context=self._network)

    def _arrive(self, connection: Connection, commands: list[Words]) -> None:
        if self.down or connection.severed:
            return
        if self.frozen_until_s > self.loop.time():
            self._backlog.append((connection, commands))
            return
        replies: list[Reply] = []
        for words in commands:
            replies += self._answer(connection, words)
        if replies:
            self._reply(connection, replies)

    def _reply(self, connection: Connection, replies: list[Reply]) -> None:
        if connection.owner in self.parted or connection.deaf_until_s > self.loop.time():
            return
        at = max(self.loop.time() + self.latency_s(connection.owner), connection.heard_until_s)
        connection.heard_until_s = at
        self.loop.call_at(at, connection.arrived, replies, context=connection.owner.context)

    def left(self, connection: Connection) -> None:
        """A connection was closed at its own end; the node learns of it a moment later."""
        at = max(self.loop.time() + self.latency_s(connection.owner), connection.sent_until_s)
        self.loop.call_at(at, self._forget, connection, context=self._network)

    def _forget(self, connection: Connection) -> None:
        self.connections.pop(connection, None)
        connection.channels.clear()

    # -- the node ------------------------------------------------------------------------------------------------------

    def now_ms(self) -> float:
        """The node's clock."""
        return (EPOCH_S + self.loop.time()) * 1000

    def _answer(self, connection: Connection, words: Words) -> list[Reply]:
        name = words[0]
        special = _SPECIAL.get(name)
        if connection.queued is not None and name != b"EXEC":
            if self._refuses(words):
                connection.spoilt = True
                return [error_reply(self.complaint)]
            connection.queued.append(words)
            return [b"QUEUED"]
        if special is not None:
            return special(self, connection, words)
        if self._refuses(words):
            return [error_reply(self.complaint)]
        return [shaped(words, self.execute([words], connection)[0])]

    def _refuses(self, words: Words) -> bool:
        if self.complaint is None:
            return False
        if self.complaint.startswith(b"LOADING"):
            return True
        if words[0] in (b"FCALL", b"EVALSHA"):
            function = find_function(self.store, words[1].decode())
            if function is None or function.reads_only:
                return False
            return not (function.allows_oom and self.complaint.startswith(b"OOM"))
        return words[0] in WRITES

    def execute(self, commands: list[Words], connection: Connection) -> list[Reply]:
        """Run commands as one, and remember them if they wrote."""
        store = self.store
        store.now_ms = self.now_ms()
        before = store.writes
        replies: list[Reply] = []
        for words in commands:
            try:
                replies.append(run(store, words))
            except Refused as refusal:
                replies.append(error_reply(str(refusal).encode()))
        if store.writes != before:
            store.history.append((store.now_ms, store.run_id, commands))
        self.trace("run", f"{connection.owner.name}/{connection.purpose}", len(store.history), commands, "->", replies)
        return replies

    def _publish(self, channel: bytes, data: bytes) -> int:
        heard = 0
        for connection in list(self.connections):
            if channel in connection.channels:
                heard += 1
                self._notify(connection, [[b"message", channel, data]])
        return heard

    def _notify(self, connection: Connection, pushes: list[Reply]) -> None:
        skips = self.skip_notifications.get(connection.owner, 0)
        # A node tells of a claim before it refuses the writer before it, over the same connection: who missed the first
        # missed the second, too.
        if skips and not _CONTROL.match(pushes[0][-1]):
            self.skip_notifications[connection.owner] = skips - 1
            self.trace("skipped", connection.owner.name)
            return
        self._reply(connection, pushes)

    # -- faults --------------------------------------------------------------------------------------------------------

    def cut(self, connection: Connection) -> None:
        """The connection breaks; both ends find out."""
        if connection in self.connections:
            connection.severed = True
            self._forget(connection)
            self.loop.call_at(
                self.loop.time() + self.latency_s(connection.owner),
                connection.break_off,
                context=connection.owner.context,
            )

    def cut_process(self, process: Process, purpose: str = "") -> None:
        """All connections of a process, or those for one purpose."""
        for connection in list(self.connections):
            if connection.owner is process and purpose in connection.purpose:
                self.cut(connection)

    def process_ended(self, process: Process) -> None:
        """The kernel closes what a process had open; what it had sent still arrives."""
        for connection in list(self.connections):
            if connection.owner is process:
                self.left(connection)

    def freeze(self, seconds: float) -> None:
        """Nothing is answered for a while; what arrives meanwhile is run afterwards, also for who has left."""
        self.frozen_until_s = self.loop.time() + seconds
        self.loop.call_at(self.frozen_until_s, self._thaw, context=self._network)

    def _thaw(self) -> None:
        if self.frozen_until_s <= self.loop.time():
            backlog, self._backlog = self._backlog, []
            for connection, commands in backlog:
                self._arrive(connection, commands)

    def complain(self, text: bytes | None) -> None:
        """Writes are answered with this error; ``None`` ends that."""
        self.complaint = text

    def restart(
        self, lost: int, seconds: float, *, emptied: bool = False, functions: bool = True, promoted: bool = False
    ) -> None:
        """All connections break, the last ``lost`` writes are gone, and nobody gets through for ``seconds``."""
        self.down = True
        self.restarts += 1
        self._backlog.clear()
        for connection in list(self.connections):
            self.cut(connection)
        lost = max(0, min(lost, len(self.store.history) - self.confirmed))
        self.losses += lost
        if lost or emptied:
            self.lost_at_s = self.loop.time()
            gone = self.store.history[len(self.store.history) - lost :]
            self.lost_more |= emptied or any(commands[0][0] != b"XADD" for _, _, commands in gone)
        self.trace("restart", lost, emptied)
        if emptied:
            self.store.data.clear()
            self.store.expires.clear()
            self.store.history.clear()
            self.confirmed = 0
            self.losses += 1
        elif lost:
            self.store = self.store.rewound(lost)
            self.store.publish = self._publish
        if not functions:
            self.store.functions.clear()
        self.scripts.clear()
        self.store.run_id = b"%040x" % self.draw.getrandbits(160)
        # A replica that is promoted has been up for long; a node that starts again has not.
        self.store.begun_ms = self.now_ms() + (-3_600_000.0 if promoted else seconds * 1000)
        self.loop.call_at(self.loop.time() + seconds, self._up, context=self._network)

    def fences(self) -> list[bytes]:
        """The newest fence of every session."""
        heads = (value for key, value in self.store.data.items() if b":head:" in key)
        return [fields.get(b"fence", b"") for fields in heads]

    def _up(self) -> None:
        self.down = False


# -- commands about the node and the connection ----------------------------------------------------------------------


def _multi(node: Node, connection: Connection, words: Words) -> list[Reply]:
    connection.queued, connection.spoilt = [], False
    return [b"OK"]


def _exec(node: Node, connection: Connection, words: Words) -> list[Reply]:
    queued, connection.queued = connection.queued, None
    if queued is None:
        return [error_reply(b"ERR EXEC without MULTI")]
    if connection.spoilt:
        return [error_reply(b"EXECABORT Transaction discarded because of previous errors.")]
    if node.complaint is not None and any(map(node._refuses, queued)):
        return [error_reply(b"EXECABORT Transaction discarded because of: " + node.complaint)]
    return [[shaped(one, reply) for one, reply in zip(queued, node.execute(queued, connection), strict=True)]]


def _subscribe(node: Node, connection: Connection, words: Words) -> list[Reply]:
    kind = words[0].lower()
    answers: list[Reply] = []
    for channel in words[1:]:
        connection.channels[channel] = None
        answers.append([kind, channel, len(connection.channels)])
    return answers


def _unsubscribe(node: Node, connection: Connection, words: Words) -> list[Reply]:
    kind = words[0].lower()
    answers: list[Reply] = []
    for channel in words[1:]:
        connection.channels.pop(channel, None)
        answers.append([kind, channel, len(connection.channels)])
    return answers


def _pubsub(node: Node, connection: Connection, words: Words) -> list[Reply]:
    counts: list[Reply] = []
    for channel in words[2:]:
        counts += [channel, sum(channel in one.channels for one in node.connections)]
    return [counts]


def _function(node: Node, connection: Connection, words: Words) -> list[Reply]:
    if node.forbids_functions:
        return [error_reply(b"NOPERM this user has no permissions to run the 'function' command")]
    if words[1] == b"LIST":
        return [[[b"library_name", b"library_code", code] for code in node.store.functions.values()]]
    if node.complaint is not None:
        return [error_reply(node.complaint)]
    text = words[-1]
    name = text.split(b"name=", 1)[1].split(b"\n", 1)[0].strip().decode()
    try:
        SCRIPTING.library(text)
    except Refused as refusal:
        return [error_reply(str(refusal).encode())]
    node.store.functions[name] = node.store.ever_loaded[name] = text
    return [name.encode()]


def _script(node: Node, connection: Connection, words: Words) -> list[Reply]:
    digest = SCRIPTING.script(words[2])
    node.scripts.add(digest)
    return [digest.encode()]


def _evalsha(node: Node, connection: Connection, words: Words) -> list[Reply]:
    if words[1].decode() not in node.scripts:
        return [error_reply(b"NOSCRIPT No matching script. Please use EVAL.")]
    if node._refuses(words):
        return [error_reply(node.complaint)]
    return [node.execute([[b"FCALL", *words[1:]]], connection)[0]]


def _wait(node: Node, connection: Connection, words: Words) -> list[Reply]:
    node.confirmed = len(node.store.history)
    return [1] if words[0] == b"WAIT" else [[1, 1]]


def _role(node: Node, connection: Connection, words: Words) -> list[Reply]:
    role = b"slave" if node.complaint is not None and node.complaint.startswith(b"READONLY") else b"master"
    return [[role, 0, []]]


def _fine(node: Node, connection: Connection, words: Words) -> list[Reply]:
    return [b"PONG" if words[0] == b"PING" else b"OK"]


_SPECIAL: dict[bytes, Callable[[Node, Connection, Words], list[Reply]]] = {
    **{b"MULTI": _multi, b"EXEC": _exec, b"SUBSCRIBE": _subscribe, b"UNSUBSCRIBE": _unsubscribe},
    **{b"SSUBSCRIBE": _subscribe, b"SUNSUBSCRIBE": _unsubscribe, b"PUBSUB": _pubsub, b"FUNCTION": _function},
    **{b"SCRIPT": _script, b"EVALSHA": _evalsha, b"WAIT": _wait, b"WAITAOF": _wait, b"ROLE": _role},
    **{b"PING": _fine, b"CLIENT": _fine},
}


def find_function(store: Store, name: str) -> Any:
    """A function that was loaded, or a script by its digest."""
    for text in store.functions.values():
        if found := SCRIPTING.library(text).get(name):
            return found
    return SCRIPTING.scripts.get(name)


def call_function(store: Store, name: str, keys: Words, args: Words) -> Reply:
    """Run a function. Raises: Refused."""
    function = find_function(store, name)
    if function is None:
        raise Refused("ERR Function not found")
    return SCRIPTING.run(store, function, keys, args)
