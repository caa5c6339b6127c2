"""Every log keeps the promises of the contract. Here those that need no server; the others are next door."""

from __future__ import annotations

import pytest

from duplex_es.log.api import Entry, EntryId, SessionLog, SessionRef
from duplex_es.log.memory import MemoryLog
from duplex_es.log.redis import RedisLog
from duplex_es.log.settings import LogSettings
from duplex_es.testing.log_suite import LogSuite, RacingLogSuite
from tests.support.log_backends import OnRedis

pytestmark = pytest.mark.unit


class TestMemoryLog(RacingLogSuite):
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


class TestFakeRedis(OnRedis, LogSuite):
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
