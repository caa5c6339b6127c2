"""Every log keeps the promises of the contract: in memory, on a fake, on Valkey, on Redis."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from duplex_es.log.api import Entry, EntryId, SessionLog, SessionRef
from duplex_es.log.keys import SessionKeys
from duplex_es.log.memory import MemoryLog
from duplex_es.log.redis import RedisLog
from duplex_es.log.settings import LogSettings
from duplex_es.testing.log_suite import LogSuite, RacingLogSuite
from tests.support.processes import StoreProcess


class TestMemoryLog(RacingLogSuite):
    pytestmark = pytest.mark.unit
    programs = 5

    @pytest.fixture(autouse=True)
    def one_store(self) -> None:
        self.store: MemoryLog | None = None

    async def make_log(self, settings: LogSettings) -> SessionLog:
        if self.store is None:
            self.store = MemoryLog(settings)
        return self.store

    def _stream(self, ref: SessionRef, stream: str) -> list[Entry]:
        assert self.store is not None
        session = self.store._current.get(ref.session_id)
        if session is None:
            return []
        return session.input if stream.startswith("in") else session.output

    async def raw_ids(self, log: SessionLog, ref: SessionRef, stream: str) -> list[str]:
        entries = self._stream(ref, stream)
        return [str(e.id) for e in entries if e.audio is not None or not stream.endswith("audio")]

    async def raw_entry(self, log: SessionLog, ref: SessionRef, stream: str, entry_id: str) -> bytes | None:
        entry = next(e for e in self._stream(ref, stream) if str(e.id) == entry_id)
        return entry.audio if stream.endswith("audio") else entry.body

    async def raw_trim(self, log: SessionLog, ref: SessionRef, stream: str, first_kept: str) -> None:
        entries = self._stream(ref, stream)
        entries[:] = [entry for entry in entries if entry.id >= EntryId.parse(first_kept)]

    async def raw_erase(self, log: SessionLog, ref: SessionRef) -> None:
        assert self.store is not None
        self.store._current.pop(ref.session_id).changed()


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


class TestFakeRedis(OnRedis, LogSuite):
    pytestmark = pytest.mark.unit
    programs = 5

    @pytest.fixture(autouse=True)
    def one_store(self) -> None:
        fakeredis = pytest.importorskip("fakeredis")
        server = fakeredis.FakeServer()
        self.raw = fakeredis.FakeStrictRedis(server=server)
        pool = fakeredis.FakeAsyncRedis(server=server, protocol=3).connection_pool
        self.connect = lambda purpose: pool.make_connection()

    async def make_log(self, settings: LogSettings) -> SessionLog:
        log = RedisLog(self.connect, settings, check=False)
        await log.connect()
        return log


class OnServer(OnRedis, RacingLogSuite):
    """A real server, shared with other tests: nothing here may depend on being alone."""

    url: str

    async def make_log(self, settings: LogSettings) -> SessionLog:
        log = RedisLog.from_url(self.url, settings)
        await log.connect()
        return log

    def _use(self, store: StoreProcess) -> Iterator[None]:
        self.url = store.url
        self.raw = redis.Redis.from_url(store.url)
        yield
        self.raw.close()


class TestValkey(OnServer):
    pytestmark = pytest.mark.redis

    @pytest.fixture(autouse=True)
    def one_store(self, valkey: StoreProcess) -> Iterator[None]:
        yield from self._use(valkey)


class TestRedis7(OnServer):
    pytestmark = pytest.mark.redis

    @pytest.fixture(autouse=True)
    def one_store(self, redis_server: StoreProcess) -> Iterator[None]:
        yield from self._use(redis_server)
