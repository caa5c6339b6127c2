"""A session begun where another was: in memory and in a real store it can be claimed, taken up and gone on with."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from duplex_es.log.api import EntryId, Record, SessionLog
from duplex_es.log.errors import LogError, SessionExists, TokenRefused
from duplex_es.log.forking import begin_from
from duplex_es.log.memory import MemoryLog
from duplex_es.log.redis import RedisLog
from duplex_es.log.settings import LogSettings
from duplex_es.reading.dxlog import FileSource
from duplex_es.tools.replay.forking import Copy, copy_at
from tests.support.processes import StoreProcess

pytestmark = pytest.mark.redis

TAKEOVER = Path(__file__).resolve().parents[1] / "corpus" / "takeover.dxlog"


async def forked(session_id: str, seq: int = 90) -> Copy:
    """A copy for a model of its own: other tests' sessions wait in the same store."""
    with FileSource(TAKEOVER) as source:
        copy = await copy_at(source, source.head, seq, session_id)
    return dataclasses.replace(copy, head=dataclasses.replace(copy.head, model=f"model of {session_id}"))


async def check_goes_on(log: SessionLog, copy: Copy, session_id: str) -> None:
    """Whoever has the token takes it up, and a worker writes on behind what was copied."""
    before = [entry async for entry in _output(log, copy)]
    assert before == copy.output
    head = await log.head(session_id)
    assert (head.state, head.attached, head.first_seq) == ("waiting", False, 1)
    assert (head.output, head.input) == (copy.output[-1].id, copy.input[-1].id)
    assert head.opening == copy.head.opening
    with pytest.raises(TokenRefused):
        await log.admit(copy.head.ref, b"wrong")
    attachment, _ = await log.attach(
        copy.head.ref, presented_digest=b"digest", next_digest=b"next", gateway="g", record=b"a", after_seq=90
    )
    assert attachment.generation == copy.head.generation + 1
    await log.append_input(attachment, 1, [Record(b"said", b"sound")])
    claimed = await log.claim("w", [copy.head.model])
    assert claimed is not None
    claim, head = claimed
    assert claim.ref == copy.head.ref and claim.fence == copy.head.fence + 1
    assert await log.read_snapshot(claim.ref) == (copy.snapshots[-1] if copy.snapshots else None)
    await log.append_output(claim, 91, [Record(b"shown", b"sound")])
    (last,) = await log.read_output(claim.ref, 90)
    assert (last.id, last.body, last.audio) == (EntryId(claim.fence, 91), b"shown", b"sound")
    assert [entry.id for entry in await log.read_input(claim.ref, copy.input[-1].id)] == [
        EntryId(attachment.generation, 0), EntryId(attachment.generation, 1)
    ]  # fmt: skip
    await log.close(claim, "done")
    assert (await log.head(session_id)).output == EntryId(claim.fence, 91)


async def _output(log: SessionLog, copy: Copy):
    for entry in await log.read_output(copy.head.ref, 0):
        yield entry


async def test_in_memory_it_goes_on() -> None:
    log, copy = MemoryLog(), await forked("fork")
    await begin_from(log, copy.head, b"digest", copy.input, copy.output, copy.snapshots)
    with pytest.raises(SessionExists):
        await begin_from(log, copy.head, b"digest", copy.input, copy.output)
    await check_goes_on(log, copy, "fork")


async def test_in_a_store_it_goes_on(valkey: StoreProcess) -> None:
    log = RedisLog.from_url(valkey.url, LogSettings(durability="memory"))
    await log.connect()
    try:
        copy = await forked("fork-in-store")
        await begin_from(log, copy.head, b"digest", copy.input, copy.output, copy.snapshots)
        with pytest.raises(SessionExists):
            await begin_from(log, copy.head, b"digest", copy.input, copy.output)
        await check_goes_on(log, copy, "fork-in-store")
    finally:
        await log.close_connections()


async def test_nothing_of_it_expires_before_it_is_closed(valkey: StoreProcess) -> None:
    log = RedisLog.from_url(valkey.url, LogSettings(durability="memory"))
    await log.connect()
    try:
        copy = await forked("fork-stays")
        await begin_from(log, copy.head, b"digest", copy.input, copy.output, copy.snapshots)
        import redis

        raw = redis.Redis.from_url(valkey.url)
        found = [key for key in raw.scan_iter(match="*fork-stays*")]
        assert len(found) >= 5 and not [key for key in found if b":forking" in key]
        assert {raw.ttl(key) for key in found} == {-1}
        raw.close()
        claimed = await log.claim("w", [copy.head.model])
        assert claimed is not None
        await log.close(claimed[0], "done")
    finally:
        await log.close_connections()


async def test_another_kind_of_log_is_refused() -> None:
    copy = await forked("fork")
    with pytest.raises(LogError, match="takes no session"):
        await begin_from(object(), copy.head, b"", copy.input, copy.output)  # type: ignore[arg-type]
