"""What goes over a connection to the stand-in: commands out of bytes, and replies as redis-py would make them."""

from __future__ import annotations

from functools import lru_cache

from redis._parsers.base import BaseParser
from redis.exceptions import RedisError

from .store import Reply, Words

REMEMBERED_ABOVE_BYTES = 4_000


def shaped(words: Words, reply: Reply) -> Reply:
    """A reply as RESP 3 shapes it, where that differs."""
    name = words[0]
    if name == b"ZRANGE" and reply and words[-1] == b"WITHSCORES":
        return [[member, float(score)] for member, score in zip(reply[::2], reply[1::2], strict=True)]
    if name == b"HGETALL" and type(reply) is list:
        return dict(zip(reply[::2], reply[1::2], strict=True))
    if name == b"ZSCORE" and type(reply) is bytes:
        return float(reply)
    return reply


def error_reply(text: bytes | None) -> RedisError:
    """As redis-py reads it: some of them count as lost connections."""
    assert text is not None
    return BaseParser.parse_error(text.decode())


@lru_cache(maxsize=256)
def _parsed(data: bytes) -> list[Words]:
    return list(_parse(data))


def parse(data: bytes) -> list[Words]:
    """The commands in a pipeline. Long ones repeat themselves word for word, so they are remembered."""
    return _parsed(data) if len(data) > REMEMBERED_ABOVE_BYTES else _parse(data)


def _parse(data: bytes) -> list[Words]:
    commands: list[Words] = []
    at, size = 0, len(data)
    find = data.index
    while at < size:
        end = find(b"\r\n", at)
        count = int(data[at + 1 : end])
        at = end + 2
        words = []
        for _ in range(count):
            end = find(b"\r\n", at)
            length = int(data[at + 1 : end])
            at = end + 2
            words.append(data[at : at + length])
            at += length + 2
        commands.append(words)
    return commands
