"""Crashes, clocks and costs, as other services are known to have had them; each test has the number of its case."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import redis

from duplex_es.log.api import START, Entry, Follower, Record, SessionLog
from duplex_es.log.errors import ConfigurationError, Fenced
from duplex_es.log.keys import SessionKeys
from duplex_es.log.keys import slot as slot_of
from duplex_es.log.memory import MemoryLog
from duplex_es.log.redis import RedisLog
from duplex_es.log.settings import LogSettings
from tests.gateway.stage import FakeWorker, running, text_delta, until
from tests.gateway.stage import joined as gateway_client
from tests.support.cluster import CALM_MS, start_cluster
from tests.support.processes import StoreProcess, start_store
from tests.support.services import Deployment
from tests.support.talking import Caller, calling, conversing

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

LONG = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen"
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def lasting() -> Iterator[StoreProcess]:
    """A store for one test that writes to its disk once a second."""
    store = start_store("valkey", "--appendonly", "yes", "--appendfsync", "everysec")
    yield store
    store.stop()


async def ask(caller: Caller, text: str) -> None:
    part = {"type": "input_text", "text": text}
    await caller.say(type="conversation.item.create", item={"type": "message", "role": "user", "content": [part]})
    await caller.say(type="response.create")


async def take_up(caller: Caller, created: dict[str, Any], after_seq: int) -> dict[str, Any]:
    """Ask for the session; the first frame of the answer."""
    await caller.say(
        type="session.resume",
        session_id=created["session"]["id"],
        incarnation=created["incarnation"],
        resume_token=created["resume_token"],
        last_received_server_event_seq=after_seq,
    )
    return await caller.hear()


def told_alike(frames: list[dict[str, Any]]) -> list[str]:
    """The sequence as text, each made-up id replaced by the number of its first appearance, event ids left out."""
    names: dict[str, str] = {}
    made_up = re.compile(r"\b(?:duplex-|resp_|item_|sess_)[0-9a-f_a-z]*[0-9a-f]{16,}\b")
    texts = []
    for frame in frames:
        if "server_event_seq" in frame:
            text = json.dumps({key: value for key, value in frame.items() if key != "event_id"}, sort_keys=True)
            texts.append(made_up.sub(lambda found: names.setdefault(found[0], f"id{len(names)}"), text))
    return texts


async def test_a_gateway_killed_in_an_answer_changes_not_a_byte_of_the_call(pair: Deployment):
    """E2: what is heard over two gateways, the first of which was killed, is what is heard over one that lives."""
    async with conversing(pair.urls[1], model="echo") as control:
        await ask(control, LONG)
        await control.hear_until("rate_limits.updated")
    doomed = pair.add_gateway()
    doomed.wait_until_ready()
    url = pair.urls.pop()
    pair.gateways.remove(doomed)
    try:
        async with conversing(url, model="echo") as first:
            created = first.heard[0]
            await ask(first, LONG)
            await first.hear_until("response.output_audio.delta")
            doomed.process.kill()
            while True:  # What had left the gateway is heard; then there is nobody.
                try:
                    await first.hear()
                except AssertionError:
                    break
        async with calling(pair.urls[1], query="?duplex=1&autostart=0") as second:
            assert (await take_up(second, created, first.seqs[-1]))["type"] == "session.resumed"
            await second.hear_until("rate_limits.updated")
    finally:
        doomed.stop()
    told, whole = told_alike(first.heard + second.heard), told_alike(control.heard)
    assert told == whole[: len(told)]
    assert len(told) > 40


@asynccontextmanager
async def on_store(store: StoreProcess, **changes: Any) -> AsyncIterator[tuple[RedisLog, FakeWorker, Any]]:
    """A log on ``store``, a worker and a gateway in this process."""
    log = RedisLog.from_url(store.url, LogSettings(sweep_interval_s=0.05))
    await log.connect()
    model = f"m-{secrets.token_hex(4)}"
    async with (
        FakeWorker(log, models=(model,)).working() as worker,
        running(log, default_model=model, **changes) as gateway,
    ):
        await until(lambda: gateway.service.fault is None)
        yield log, worker, gateway


async def test_a_history_that_is_gone_is_a_gap_and_not_an_empty_one(own_valkey: StoreProcess):
    """E10: a stream that was trimmed, and one whose key has expired, are told alike."""
    async with on_store(own_valkey) as (log, worker, gateway):
        async with gateway_client(gateway.url()) as client:
            created = await client.open(session_id="mine")
            await client.say("input.text.append", text="say 99")
            for _ in range(99):
                await client.hear()
            client.socket.transport.abort()
        head = await log.head("mine")
        claim = worker.claims["mine"]
        await log.trim_history(claim, input_before=head.input, output_before=80)
        with redis.Redis.from_url(own_valkey.url) as raw:
            for first_available in (80, 41):  # Where nothing is left, all that is known is where the client stands.
                async with gateway_client(gateway.url("autostart=0")) as client:
                    await client.resume(created, 40)
                    gap = await client.hear_type("session.resync_required")
                assert (gap["reason"], gap["first_available"]) == ("journal_gap", first_available)
                raw.delete(SessionKeys.of(head.ref).output.records)


async def test_nothing_up_to_the_advertised_number_is_lost_with_the_store(lasting: StoreProcess):
    """E14: the store is killed the moment the number has been told; when it is back, everything up to it is there."""
    async with on_store(lasting, log_patience_s=60.0) as (log, worker, gateway):
        async with gateway_client(gateway.url("duplex=1&durable=1")) as client:
            created = await client.open(session_id="mine")
            durable = number = 0
            async with asyncio.timeout(60):  # it moves while frames go out, however long the disk takes
                while durable <= 20:
                    number += 1
                    await worker.show("mine", text_delta(str(number)))
                    while (frame := await client.hear())["type"] == "session.durable":
                        durable = frame["durable_seq"]
            lasting.kill()
            lasting.start()
            head = await log.head("mine")
            assert head.output.number >= durable
            entries = await log.read_output(head.ref, 0, limit=durable)
            assert [entry.id.number for entry in entries] == list(range(1, durable + 1))
        async with gateway_client(gateway.url("autostart=0")) as client:
            await client.resume(created, durable)
            assert (await client.hear())["type"] == "session.resumed"


@pytest.mark.parametrize("store", ["memory", "valkey"])
async def test_whoever_holds_a_session_no_more_can_do_nothing_to_it(store: str, valkey: StoreProcess):
    """E20: an acknowledgement, a renewal and an append under an old generation are refused, each of them."""
    log: SessionLog = MemoryLog() if store == "memory" else RedisLog.from_url(valkey.url)
    await log.connect()
    ref = await log.next_incarnation(f"s-{secrets.token_hex(8)}")
    old = await log.create(ref, model=f"m-{store}", token_digest=b"1", gateway="g1", record=b"")
    new, _ = await log.attach(ref, presented_digest=b"1", next_digest=b"2", gateway="g2", record=b"")
    with pytest.raises(Fenced):
        await log.acknowledge(old, 1)
    with pytest.raises(Fenced):
        await log.append_input(old, 1, [Record(b"late")])
    assert await log.renew([old, new], []) == [old]
    assert (await log.head(ref.session_id)).acknowledged_seq == 0
    await log.close_connections()


async def test_a_clock_that_goes_back_refuses_nothing():
    """E33: ids are counters. A store whose clock is set back by ten seconds takes the next record like any other."""
    now = [1_000.0]
    log = MemoryLog(clock=lambda: now[0])
    async with FakeWorker(log).working() as worker, running(log) as gateway, gateway_client(gateway.url()) as client:
        await client.open(session_id="mine")
        await worker.show("mine", text_delta("before"))
        now[0] -= 10.0
        await worker.show("mine", text_delta("after"))
        await client.say("session.heartbeat")
        assert [(await client.hear())["server_event_seq"] for _ in range(3)] == [2, 3, 4]
    sources = [*(ROOT / "duplex_es" / "log").rglob("*.py"), *(ROOT / "duplex_es" / "log").rglob("*.lua")]
    lines = [line for path in sources for line in path.read_text().splitlines() if "TRIAL_" not in line]
    adds = [line for line in lines if re.search(r"['\"]XADD['\"]", line)]
    assert adds
    assert [line for line in adds if re.search(r"['\"]\*['\"]|-\*", line)] == [], "no id is left to the clock"


async def test_the_time_a_closed_session_is_kept_is_not_made_longer_by_reading_it(own_valkey: StoreProcess):
    """E34: the retention after the close is absolute."""
    async with on_store(own_valkey) as (log, worker, gateway):
        async with gateway_client(gateway.url()) as client:
            created = await client.open(session_id="mine")
            await client.say("session.close")
            await client.hear_type("session.closed")
        keys = SessionKeys.of((await log.head("mine")).ref)
        with redis.Redis.from_url(own_valkey.url) as raw:
            left_ms = raw.pttl(keys.head)
            assert 0 < left_ms <= LogSettings().retention_s * 1000
            for _ in range(3):
                async with gateway_client(gateway.url("autostart=0")) as client:
                    await client.resume(created, 0)
                    assert (await client.hear_all())[-1]["type"] == "session.closed"
                assert 0 < raw.pttl(keys.head) < left_ms
                left_ms = raw.pttl(keys.head)
        assert worker.heard["mine"]


def test_stand_ins_for_the_store_are_used_where_nothing_happens_at_once():
    """E29: what a fake store does under cancellation and concurrency is its own; only tests without those use one."""
    fake = "fake" + "redis"
    users = [path for path in (ROOT / "tests").rglob("*.py") if f'importorskip("{fake}")' in path.read_text()]
    assert [path for path in (ROOT / "tests").rglob("*.py") if f"import {fake}" in path.read_text()] == []
    assert users
    for path in users:
        assert "pytestmark = pytest.mark.unit" in path.read_text(), path
        racing = re.findall(r"class (\w+)\(.*RacingLogSuite", path.read_text())
        assert set(racing) <= {"TestMemoryLog"}, "the racing half of the suite needs a real server, or the log itself"


def resident_bytes(process: subprocess.Popen[bytes]) -> int:
    status = Path(f"/proc/{process.pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")
async def test_an_idle_socket_costs_little(own_valkey: StoreProcess):
    """E36: without compression, a socket with its session costs the gateway less than 100 KiB."""
    crowd = 150
    with Deployment(own_valkey.url, model="echo", options=("--slots", str(crowd + 20))) as deployment:
        (gateway,) = deployment.gateways
        url = f"{deployment.urls[0]}?duplex=1&model=echo"
        opened: list[Caller] = []
        async with AsyncExitStack() as stack:

            async def open_one() -> None:
                caller = await stack.enter_async_context(calling(url))
                assert (await caller.hear())["type"] == "session.created"
                opened.append(caller)

            for _ in range(10):
                await open_one()  # What is made once is made by now.
            before = resident_bytes(gateway.process)
            for _ in range(crowd):
                await open_one()
            grown = resident_bytes(gateway.process) - before
            assert opened[0].socket.response is not None
            assert "Sec-WebSocket-Extensions" not in opened[0].socket.response.headers
    assert grown / crowd < 100 * 1024, f"{grown / crowd / 1024:.0f} KiB a socket"


def test_a_client_library_of_the_store_that_is_too_old_is_refused_by_its_number(monkeypatch: pytest.MonkeyPatch):
    """E28: what an old one lacks would be noticed in the middle of a call; so nothing starts with it."""
    monkeypatch.setattr(redis, "__version__", "7.4.0")
    with pytest.raises(ConfigurationError, match=r"redis-py 7\.4\.0 is too old: 8\.0 is needed"):
        RedisLog.from_url("redis://127.0.0.1:6379/0")


async def test_every_subscription_of_a_cluster_delivers_again_after_its_connections_were_killed():
    """E27: two hundred sessions over many slots, all their subscriptions cut at once on every node."""
    sessions = 200
    with start_cluster("valkey", primaries=3, replicas=0, node_timeout_ms=CALM_MS) as cluster:
        log = RedisLog.from_url(cluster.url, LogSettings(sweep_interval_s=0.05))
        await log.connect()
        model = f"m-{secrets.token_hex(4)}"
        async with AsyncExitStack() as stack:
            followers, claims = [], []
            for number in range(sessions):
                ref = await log.next_incarnation(f"s{number}")
                await log.create(ref, model=model, token_digest=b"1", gateway="g", record=b"")
            while len(claims) < sessions:
                if (claimed := await log.claim("w", [model])) is not None:
                    claims.append(claimed[0])
            for claim in claims:
                follower = await stack.enter_async_context(log.follow_output(claim.ref))
                follower.start(START)
                followers.append(follower)
            slots = {slot_of(SessionKeys.of(claim.ref).head) for claim in claims}
            assert len({cluster.primary_of(slot).port for slot in slots}) == 3 and len(slots) > 50
            for seq in (1, 2, 3):
                await asyncio.gather(*(log.append_output(claim, seq, [Record(b"%d" % seq)]) for claim in claims))
                heard = await asyncio.gather(*(_next_entry(follower) for follower in followers))
                assert [entry.body for entry in heard] == [b"%d" % seq] * sessions
                for node in cluster.primaries():
                    killed = cluster.ask(node, "CLIENT", "KILL", "TYPE", "PUBSUB")
                    assert isinstance(killed, int)
        await log.close_connections()


async def _next_entry(follower: Follower) -> Entry:
    async with asyncio.timeout(30):
        async for item in follower:
            if isinstance(item, Entry):
                return item
    raise AssertionError("the session ended")
