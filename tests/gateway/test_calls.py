"""Recorded calls over HTTP: a real gateway on a real Valkey."""

from __future__ import annotations

import io
import json
import wave
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from duplex_es.log.redis import RedisLog
from duplex_es.log.settings import LogSettings
from duplex_es.protocol.records import SCHEMA_VERSION
from duplex_es.reading.dxlog import FileSource
from tests.gateway.reading import TOKEN, ask
from tests.gateway.stage import Gateway, running, until
from tests.support.processes import StoreProcess
from tests.support.recorded import record_session
from tests.support.recorded_call import record_call

pytestmark = [pytest.mark.redis, pytest.mark.timeout(300)]


@pytest.fixture
async def store(own_valkey: StoreProcess) -> AsyncIterator[RedisLog]:
    log = RedisLog.from_url(own_valkey.url, LogSettings(durability="memory"))
    await log.connect()
    yield log
    await log.close_connections()


@pytest.fixture
async def gateway(own_valkey: StoreProcess, store: RedisLog) -> AsyncIterator[Gateway]:
    await record_call(store)
    await record_session(store, "other", claims=False)
    own = RedisLog.from_url(own_valkey.url, LogSettings(durability="memory"))
    async with running(own, operator_token=TOKEN) as gateway:
        await until(lambda: gateway.service.fault is None)
        yield gateway


async def test_sessions_are_listed_newest_first_and_filtered(gateway: Gateway) -> None:
    found = (await ask(gateway, "/v1/sessions")).json
    assert [(one["id"], one["state"], one["model"]) for one in found["data"]] == [
        ("call-1", "closed", "scripted"),
        ("other", "waiting", "cascade"),
    ]
    assert (found["data"][0]["length_ms"], found["total"]) == (9_100, 2)
    for query, names in (
        ("q=all", ["call-1"]),
        ("state=waiting", ["other"]),
        ("model=echo", []),
        ("error=1", []),
        ("newer_than_s=5", []),
        ("older_than_s=5&limit=1", ["call-1"]),
    ):
        assert [one["id"] for one in (await ask(gateway, f"/v1/sessions?{query}")).json["data"]] == names, query


async def test_the_document_is_sent_once_and_again_when_there_is_something_new(gateway: Gateway) -> None:
    first = await ask(gateway, "/v1/sessions/call-1/timeline")
    assert first.json["replies"][0]["text"] == "Sunny all day."
    assert first.headers["cache-control"] == "no-store"
    again = await ask(gateway, "/v1/sessions/call-1~0/timeline", If_None_Match=first.headers["etag"])
    assert (again.status, again.body) == (304, b"")
    assert (await ask(gateway, "/v1/sessions/call-1/timeline", If_None_Match='"another"')).body == first.body


async def test_tiles_of_peaks_are_loud_where_there_is_sound(gateway: Gateway) -> None:
    bins = (await ask(gateway, "/v1/sessions/call-1/peaks?lane=caller&level=0&tiles=0,1")).body
    assert len(bins) == 1_024
    assert min(bins[:200]) > 80 and max(bins[205:345]) == 0 and min(bins[355:445]) > 80
    heard = (await ask(gateway, "/v1/sessions/call-1/peaks?lane=heard&level=1&tiles=0")).body
    generated = (await ask(gateway, "/v1/sessions/call-1/peaks?lane=generated&level=1&tiles=0")).body
    assert sum(map(bool, generated)) > sum(map(bool, heard)) > 90


async def test_a_window_of_sound_is_a_wav(gateway: Gateway) -> None:
    answer = await ask(gateway, "/v1/sessions/call-1/audio?lane=caller&from_ms=1000&to_ms=3000")
    assert answer.headers["content-type"] == "audio/wav"
    with wave.open(io.BytesIO(answer.body)) as file:
        assert (file.getframerate(), file.getnframes()) == (16_000, 32_000)
        samples = file.readframes(32_000)
    assert any(samples[:32_000]) and not any(samples[32_200:])


async def test_the_raw_record_stands_at_its_seq_or_entry(gateway: Gateway) -> None:
    record = (await ask(gateway, "/v1/sessions/call-1/record?seq=44")).json
    assert (record["id"], record["frame"]["transcript"]) == ("1-44", "Tell me a story.")
    attached = (await ask(gateway, "/v1/sessions/call-1/record?stream=input&id=2-0")).json
    assert attached["said"]["type"] == "duplex_es.socket_attached"
    rows = (await ask(gateway, "/v1/sessions/call-1/records?stream=output&after=1-136&limit=2")).json["data"]
    assert [(row["id"], "WorkerChanged" in row["facts"]) for row in rows] == [("2-137", True), ("2-138", False)]
    rows = (await ask(gateway, "/v1/sessions/call-1/records?stream=input&after=1-22&limit=1")).json["data"]
    assert [(row["id"], row["name"]) for row in rows] == [("2-0", "duplex_es.socket_attached")]


async def test_the_file_of_a_session_is_the_one_that_the_command_writes(gateway: Gateway, tmp_path: Path) -> None:
    answer = await ask(gateway, "/v1/sessions/call-1/export")
    assert answer.headers["content-disposition"] == 'attachment; filename="call-1-0.dxlog"'
    path = tmp_path / "call.dxlog"
    path.write_bytes(answer.body)
    with FileSource(path) as source:
        assert source.broken_chain() is None
        assert (source.manifest.schema_version, len(list(source.entries("output")))) == (SCHEMA_VERSION, 174)


async def test_two_sessions_are_compared(gateway: Gateway, store: RedisLog) -> None:
    await record_call(store, "again")
    alike = (await ask(gateway, "/v1/sessions/call-1/divergence?with=again")).json
    assert alike == {"alike": True, "first_divergence": None, "turns": []}
    parted = (await ask(gateway, "/v1/sessions/call-1/divergence?with=other")).json
    assert parted["first_divergence"]["number"] == 1
    assert len(parted["turns"]) == 3


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/v1/sessions/nobody/timeline", 404, "session_not_found"),
        ("/v1/sessions/call-1~7/timeline", 404, "session_not_found"),
        ("/v1/sessions/call-1/record?seq=9999", 404, "record_not_found"),
        ("/v1/sessions/call-1/record?stream=input&id=9-9", 404, "record_not_found"),
        ("/v1/sessions/call-1/record?seq=0", 400, "invalid_query"),
        ("/v1/sessions/call-1/record?id=x", 400, "invalid_query"),
        ("/v1/sessions/call-1/record?stream=both&id=1-1", 400, "invalid_query"),
        ("/v1/sessions/call-1/peaks?level=9", 400, "invalid_query"),
        ("/v1/sessions/call-1/peaks?tiles=a", 400, "invalid_query"),
        ("/v1/sessions/call-1/peaks?lane=both", 400, "invalid_query"),
        ("/v1/sessions/call-1/audio?from_ms=0&to_ms=600000", 400, "invalid_query"),
        ("/v1/sessions/call-1/audio?from_ms=-1", 400, "invalid_query"),
        ("/v1/sessions/call-1/divergence", 400, "invalid_query"),
        ("/v1/sessions?state=happy", 400, "invalid_query"),
        ("/v1/sessions?older_than_s=soon", 400, "invalid_query"),
        ("/v1/sessions?limit=0", 400, "invalid_query"),
    ],
)
async def test_what_is_not_there_or_cannot_be_is_named(gateway: Gateway, path: str, status: int, code: str) -> None:
    answer = await ask(gateway, path)
    assert (answer.status, answer.code) == (status, code), answer.body


async def test_a_closed_session_is_followed_to_its_end_at_once(gateway: Gateway) -> None:
    events = (await ask(gateway, "/v1/sessions/call-1/events?after=0")).body.decode()
    moved, ended = events.strip().split("\n\n")
    assert json.loads(moved.split("data: ")[1])["seq"] == 174
    assert ended.startswith("event: end")


async def test_the_pages_are_there_when_they_are_on_and_hold_nothing_of_a_call(
    own_valkey: StoreProcess, store: RedisLog
) -> None:
    own = RedisLog.from_url(own_valkey.url, LogSettings(durability="memory"))
    async with running(own, pages="on") as gateway:
        for path in ("/sessions", "/sessions/anything"):
            page = await ask(gateway, path, token=None)
            assert "timeline.css" in page.body.decode()
            assert "script-src 'self'" in page.headers["content-security-policy"]
