"""Connections to one Redis node, with every redis-py setting explicit, each owned by one task.

redis-py's own retries are off: it would send a write twice after a lost reply. A connection is never handed from
caller to caller: its owner sends, reads every reply, and closes it at the first doubt, so a cancelled caller cannot
leave a reply behind for the next one.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from inspect import isawaitable
from typing import Any

import redis
from redis.asyncio.connection import AbstractConnection, Connection, parse_url
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, RedisError, ResponseError

from .errors import ConfigurationError
from .settings import LogSettings

Argument = bytes | str | int
Command = Sequence[Argument]
Reply = Any  # what redis-py makes of a RESP value; an error reply is a ResponseError instance
ConnectionFactory = Callable[[str], AbstractConnection | Awaitable[AbstractConnection]]
"""Makes a connection for a purpose. One that has to find out first where to connect takes its time to."""


class Broken(Exception):
    """The connection failed; whether the unanswered commands ran is unknown. ``replies`` came before."""

    def __init__(self, reason: str, replies: list[Reply]) -> None:
        super().__init__(reason)
        self.replies = replies


LOWEST_CLIENT = (8, 0)


def connection_options(url: str, settings: LogSettings) -> dict[str, Any]:
    """How to connect to the node behind ``url``: every argument of redis-py's connection.

    Raises: ValueError when the URL is not one of Redis, ConfigurationError when redis-py is too old.
    """
    installed = redis.__version__
    if tuple(int(part) for part in installed.split(".")[:2]) < LOWEST_CLIENT:
        raise ConfigurationError(f"redis-py {installed} is too old: {LOWEST_CLIENT[0]}.{LOWEST_CLIENT[1]} is needed")
    return {
        **parse_url(url),
        "protocol": 3,
        "decode_responses": False,
        "retry": Retry(NoBackoff(), 0),
        "retry_on_error": [],
        "health_check_interval": 0,
        # Replies are timed by ``Link``: per pipeline, where redis-py would set up a timer for each reply.
        "socket_timeout": None,
        "socket_connect_timeout": settings.connect_timeout_s,
        "socket_keepalive": True,
    }


def make_connection(
    options: dict[str, Any], purpose: str, address: tuple[str, int] | None = None
) -> AbstractConnection:
    """An unconnected connection; ``purpose`` shows in ``CLIENT LIST``, ``address`` overrides that of the options."""
    arguments = {**options, "client_name": f"duplex-es-{purpose}"}
    make = arguments.pop("connection_class", Connection)
    if "path" in arguments:
        del arguments["socket_keepalive"]
    if address is not None:
        arguments["host"], arguments["port"] = address
    made: AbstractConnection = make(**arguments)
    return made


def connection_factory(url: str, settings: LogSettings) -> ConnectionFactory:
    """Makes unconnected connections to the node behind ``url``; the argument says what for.

    Raises: ValueError when the URL is not one of Redis, ConfigurationError when redis-py is too old.
    """
    options = connection_options(url, settings)
    return lambda purpose: make_connection(options, purpose)


def pack(commands: Sequence[Command]) -> bytes:
    """``commands`` as one piece of RESP; a pipeline costs one write."""
    parts: list[bytes] = []
    for command in commands:
        parts.append(b"*%d\r\n" % len(command))
        for argument in command:
            if isinstance(argument, bytes):
                parts.append(b"$%d\r\n%b\r\n" % (len(argument), argument))
            else:
                data = str(argument).encode()
                parts.append(b"$%d\r\n%b\r\n" % (len(data), data))
    return b"".join(parts)


class Link:
    """One connection that reconnects on demand. Only its owner's task may use it.

    ``epoch`` goes up with every new connection: what was learnt under an older one may be out of date. ``renewed`` is
    called for each but the first.
    """

    def __init__(
        self,
        connect: ConnectionFactory,
        purpose: str,
        settings: LogSettings,
        renewed: Callable[[], None] = lambda: None,
    ) -> None:
        self._renewed = renewed
        self._connect = connect
        self._purpose = purpose
        self._settings = settings
        self._connection: AbstractConnection | None = None
        self._is_doubtful = False
        self.epoch = 0

    async def ensure(self) -> AbstractConnection:
        """A connected connection. Raises: Broken, ConfigurationError when the store refuses who we are."""
        if self._is_doubtful:
            await self.close()
        if self._connection is None:
            self._is_doubtful = False
            connection: AbstractConnection | None = None
            try:
                async with asyncio.timeout(self._settings.connect_timeout_s):
                    made = self._connect(self._purpose)
                    connection = await made if isawaitable(made) else made
                    await connection.connect()  # type: ignore[no-untyped-call]
            except AuthenticationError as refusal:
                await self._drop(connection)
                raise ConfigurationError(f"the store refuses the credentials: {refusal}") from refusal
            except (RedisError, OSError) as failure:
                await self._drop(connection)
                raise Broken(f"cannot connect: {str(failure) or type(failure).__name__}", []) from failure
            except BaseException:
                await self._drop(connection)
                raise
            self._connection = connection
            self.epoch += 1
            if self.epoch > 1:
                self._settings.observer.reconnected(self._purpose)
                self._renewed()
        return self._connection

    def doubt(self) -> None:
        """Connect anew before the next use: the connection may lead to the wrong place. From any task."""
        self._is_doubtful = True

    async def exchange(self, commands: Sequence[Command]) -> list[Reply]:
        """Send one pipeline and read all of its replies; error replies are values. Raises: Broken.

        Doubt does not count here: what ``ensure`` led to is used until the owner asks for it again.
        """
        connection = self._connection or await self.ensure()
        replies: list[Reply] = []
        loop, patience_s = asyncio.get_running_loop(), self._settings.socket_timeout_s
        try:
            async with asyncio.timeout(patience_s) as deadline:
                await connection.send_packed_command(pack(commands), check_health=False)
                extend_from = loop.time()
                for _ in commands:
                    # Time is per progress, not per pipeline: a long answer is not a silent one. Seldom, as timers cost.
                    if (now := loop.time()) > extend_from:
                        deadline.reschedule(now + patience_s)
                        extend_from = now + patience_s / 8
                    try:
                        replies.append(await connection.read_response(timeout=math.inf))
                    except ResponseError as refusal:
                        replies.append(refusal)
        except (RedisError, OSError) as failure:
            await self.close()
            raise Broken(str(failure) or type(failure).__name__, replies) from failure
        except BaseException:
            await self.close()
            raise
        return replies

    async def close(self) -> None:
        """Drop the connection, with whatever it still carries. Idempotent."""
        connection, self._connection = self._connection, None
        await self._drop(connection)

    @staticmethod
    async def _drop(connection: AbstractConnection | None) -> None:
        try:
            if connection is not None:
                await connection.disconnect(nowait=True)
        except (RedisError, OSError):
            return  # it is gone either way


Exchange = Callable[[Sequence[Command]], Awaitable[list[Reply]]]
"""Anything that runs a pipeline: a link's ``exchange`` or a lane's ``run``."""
