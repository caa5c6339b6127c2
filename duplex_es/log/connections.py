"""Connections to one Redis node, with every redis-py setting explicit, each owned by one task.

redis-py's own retries are off: it would send a write twice after a lost reply. A connection is never handed from
caller to caller: its owner sends, reads every reply, and closes it at the first doubt, so a cancelled caller cannot
leave a reply behind for the next one.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from redis.asyncio.connection import AbstractConnection, Connection, parse_url
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, RedisError, ResponseError

from .errors import ConfigurationError
from .settings import LogSettings

Argument = bytes | str | int
Command = Sequence[Argument]
Reply = Any  # what redis-py makes of a RESP value; an error reply is a ResponseError instance
ConnectionFactory = Callable[[str], AbstractConnection]


class Broken(Exception):
    """The connection failed; whether the unanswered commands ran is unknown. ``replies`` came before."""

    def __init__(self, reason: str, replies: list[Reply]) -> None:
        super().__init__(reason)
        self.replies = replies


def connection_factory(url: str, settings: LogSettings) -> ConnectionFactory:
    """Makes unconnected connections to the node behind ``url``; the argument says what for, in ``CLIENT LIST``.

    Raises: ValueError when the URL is not one of Redis.
    """
    options: dict[str, Any] = {
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
    make = options.pop("connection_class", Connection)
    if "path" in options:
        del options["socket_keepalive"]

    def connection(purpose: str) -> AbstractConnection:
        made: AbstractConnection = make(**options, client_name=f"duplex-es-{purpose}")
        return made

    return connection


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

    ``epoch`` goes up with every new connection: what was learnt under an older one may be out of date.
    """

    def __init__(self, connect: ConnectionFactory, purpose: str, settings: LogSettings) -> None:
        self._connect = connect
        self._purpose = purpose
        self._settings = settings
        self._connection: AbstractConnection | None = None
        self.epoch = 0

    async def ensure(self) -> AbstractConnection:
        """A connected connection. Raises: Broken, ConfigurationError when the store refuses who we are."""
        if self._connection is None:
            connection = self._connect(self._purpose)
            try:
                async with asyncio.timeout(self._settings.connect_timeout_s):
                    await connection.connect()  # type: ignore[no-untyped-call]
            except AuthenticationError as refusal:
                await self._drop(connection)
                raise ConfigurationError(f"the store refuses the credentials: {refusal}") from refusal
            except (RedisError, OSError) as failure:
                await self._drop(connection)
                raise Broken(f"cannot connect: {failure}", []) from failure
            except BaseException:
                await self._drop(connection)
                raise
            self._connection = connection
            self.epoch += 1
        return self._connection

    async def exchange(self, commands: Sequence[Command]) -> list[Reply]:
        """Send one pipeline and read all of its replies; error replies are values. Raises: Broken."""
        connection = await self.ensure()
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
        if connection is not None:
            await self._drop(connection)

    @staticmethod
    async def _drop(connection: AbstractConnection) -> None:
        try:
            await connection.disconnect(nowait=True)
        except (RedisError, OSError):
            return  # it is gone either way


Exchange = Callable[[Sequence[Command]], Awaitable[list[Reply]]]
"""Anything that runs a pipeline: a link's ``exchange`` or a lane's ``run``."""
