"""What the log suite needs of each backend: how to make a log, and how to look past it."""

from __future__ import annotations

from collections.abc import Iterator

import redis

from duplex_es.log.api import SessionLog, SessionRef
from duplex_es.log.keys import SessionKeys
from duplex_es.log.redis import RedisLog
from duplex_es.log.settings import LogSettings
from tests.support.processes import StoreProcess


class OnRedis:
    """The raw accessors of everything that speaks Redis: a plain client that knows the key names only."""

    raw: redis.Redis

    @staticmethod
    def _key(ref: SessionRef, stream: str) -> str:
        keys = SessionKeys.of(ref)
        return {
            "in": keys.input.records,
            "out": keys.output.records,
            "in-audio": keys.input.audio,
            "out-audio": keys.output.audio,
        }[stream]

    async def raw_ids(self, log: SessionLog, ref: SessionRef, stream: str) -> list[str]:
        return [entry_id.decode() for entry_id, _ in self.raw.xrange(self._key(ref, stream))]

    async def raw_entry(self, log: SessionLog, ref: SessionRef, stream: str, entry_id: str) -> bytes | None:
        ((_, fields),) = self.raw.xrange(self._key(ref, stream), entry_id, entry_id)
        return fields[b"b" if stream.endswith("audio") else b"m"]

    async def raw_trim(self, log: SessionLog, ref: SessionRef, stream: str, first_kept: str) -> None:
        self.raw.xtrim(self._key(ref, stream), minid=first_kept, approximate=False)

    async def raw_erase(self, log: SessionLog, ref: SessionRef) -> None:
        keys = SessionKeys.of(ref)
        streams = (self._key(ref, stream) for stream in ("in", "out", "in-audio", "out-audio"))
        self.raw.delete(keys.head, keys.snap, *streams)


class OnServer(OnRedis):
    """A real server, shared with other tests: nothing here may depend on being alone."""

    url: str

    async def make_log(self, settings: LogSettings) -> SessionLog:
        log = RedisLog.from_url(self.url, settings)
        await log.connect()
        return log

    def use_store(self, store: StoreProcess) -> Iterator[None]:
        self.url = store.url
        self.raw = redis.Redis.from_url(store.url)
        yield
        self.raw.close()
