"""The log tells its observer how things went, and nothing else changes."""

from __future__ import annotations

import pytest

from duplex_es.log.api import START, Record
from duplex_es.log.errors import Fenced, LogError
from duplex_es.log.observing import (
    UNOBSERVED,
    Unobserved,
    append_observed,
    call_observed,
    persisted_observed,
)
from duplex_es.log.redis import RedisLog
from duplex_es.log.settings import LogSettings
from tests.support.processes import StoreProcess

pytestmark = pytest.mark.redis


class Ear(Unobserved):
    """Keeps what it is told, without the times."""

    def __init__(self) -> None:
        self.heard: list[tuple[object, ...]] = []

    def appended(self, stream: str, seconds: float, records: int, size_bytes: int) -> None:
        assert seconds >= 0
        self.heard.append(("appended", stream, records, size_bytes))

    def piped(self) -> None:
        self.heard.append(("piped",))

    def called(self, name: str, seconds: float) -> None:
        self.heard.append(("called", name))

    def persisted(self, seconds: float) -> None:
        self.heard.append(("persisted",))

    def failed(self, error: Exception) -> None:
        self.heard.append(("failed", type(error).__name__))

    def delivered(self, stream: str, seconds: float) -> None:
        assert seconds >= 0
        self.heard.append(("delivered", stream))


async def _fine() -> int:
    return 7


async def _nothing() -> None:
    return None


async def _fenced() -> None:
    raise Fenced("newer")


async def test_what_went_well_is_told_with_what_it_was() -> None:
    ear = Ear()
    assert await call_observed(ear, "claim", _fine()) == 7
    await append_observed(ear, "input", [Record(b"abc", b"de"), Record(b"f")], _nothing())
    await persisted_observed(ear, _nothing())
    assert ear.heard == [("called", "claim"), ("appended", "input", 2, 6), ("persisted",)]


async def test_what_went_wrong_is_told_and_raised() -> None:
    ear = Ear()
    with pytest.raises(LogError):
        await append_observed(ear, "input", [], _fenced())
    with pytest.raises(LogError):
        await call_observed(ear, "claim", _fenced())
    assert ear.heard == [("failed", "Fenced")] * 2


async def test_nobody_listens_by_default() -> None:
    assert LogSettings().observer is UNOBSERVED
    assert await call_observed(UNOBSERVED, "claim", _fine()) == 7


async def test_a_record_is_seen_on_its_whole_way(valkey: StoreProcess) -> None:
    ear = Ear()
    log = RedisLog.from_url(valkey.url, LogSettings(observer=ear))
    ref = await log.next_incarnation("observed")
    async with log.follow_input(ref) as follower:
        attachment = await log.create(ref, model="seen", token_digest=b"", gateway="g", record=b"0")
        follower.start(START)
        await log.append_input(attachment, 1, [Record(b"abc")])
        async for entry in follower:
            if entry.id.number == 1:  # type: ignore[union-attr]
                break
        await log.append_input(attachment, 2, [Record(b"abcd")])
        async for _ in follower:
            break
    assert {("called", "create"), ("piped",), ("appended", "input", 1, 3), ("delivered", "input")} <= set(ear.heard)
    claimed = await log.claim("w", ["seen"])
    assert claimed is not None
    await log.close(claimed[0], "over")
    with pytest.raises(LogError):
        await log.append_input(attachment, 3, [Record(b"late")])
    assert ear.heard[-1][0] == "failed"
    await log.close_connections()
