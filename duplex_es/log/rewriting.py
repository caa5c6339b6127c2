"""Having a store write its files anew, so that what was erased from it is not in them any more."""

from __future__ import annotations

import asyncio
import time

from redis.exceptions import ResponseError

from . import keys
from .connections import Reply
from .errors import LogUnavailable
from .nodes import checked
from .redis import RedisLog
from .scripts import refused

PATIENCE_S = 600.0
PAUSE_S = 0.1
_STATUS = ("aof_last_bgrewrite_status", "rdb_last_bgsave_status")
_BUSY = ("aof_rewrite_in_progress", "aof_rewrite_scheduled", "rdb_bgsave_in_progress")


async def rewrite_files(log: RedisLog, patience_s: float = PATIENCE_S) -> list[str]:
    """Rewrite the append-only file and the snapshot of every primary, where it has them; what was done, in words.

    Returns once they are written. A replica's own files are its own: ask it by its own address. Raises: LogUnavailable
    when it takes longer than ``patience_s``, LogError when the store forbids it or fails.
    """
    slots = list(keys.PARTITION_SLOTS)
    done: list[str] = []
    for group in await log.nodes.grouped(slots):
        # A command without a key goes where the keyed one before it goes.
        place = ("EXISTS", keys.marker(group[0]))
        if b"aof_enabled:1" in await _persistence(log, place):
            await _ask(log, place, ("BGREWRITEAOF",))
            done.append("the append-only file was rewritten")
            await _settled(log, place, patience_s)
        _, wanted = checked(await log.nodes.calls([place, ("CONFIG", "GET", "save")]))
        if b"rdb_last_save_time" in await _persistence(log, place) and any(_values(wanted)):
            await _ask(log, place, ("BGSAVE",))
            done.append("the snapshot was rewritten")
            await _settled(log, place, patience_s)
    return done or ["the store writes no files"]


async def _ask(log: RedisLog, place: tuple[str, str], command: tuple[str, ...]) -> None:
    _, reply = await log.nodes.calls([place, command])
    # "already in progress" will not do: that one may have begun before the erasure.
    deadline = time.monotonic() + PATIENCE_S
    while isinstance(reply, ResponseError) and "in progress" in str(reply).lower() and time.monotonic() < deadline:
        await asyncio.sleep(PAUSE_S)
        _, reply = await log.nodes.calls([place, command])
    if isinstance(reply, ResponseError):
        raise refused(reply)


async def _settled(log: RedisLog, place: tuple[str, str], patience_s: float) -> None:
    deadline = time.monotonic() + patience_s
    while _names_in(await _persistence(log, place), _BUSY, b"1"):
        if time.monotonic() > deadline:
            raise LogUnavailable(f"the store has not rewritten its files in {patience_s:.0f} s")
        await asyncio.sleep(PAUSE_S)
    failed = _names_in(await _persistence(log, place), _STATUS, b"err")
    if failed:
        raise LogUnavailable(f"the store could not rewrite its files: {', '.join(failed)}")


async def _persistence(log: RedisLog, place: tuple[str, str]) -> bytes:
    _, info = checked(await log.nodes.calls([place, ("INFO", "persistence")]))
    return info if isinstance(info, bytes) else str(info).encode()


def _names_in(info: bytes, names: tuple[str, ...], value: bytes) -> list[str]:
    return [name for name in names if name.encode() + b":" + value in info]


def _values(reply: Reply) -> list[bytes]:
    """The values of a CONFIG GET, whether RESP 2 or 3 shaped it."""
    return list(reply.values()) if isinstance(reply, dict) else list(reply[1::2])
