"""Lost and repeated events, silent gaps and storms, as other services are known to have had them.

Each test has the number of its case.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from duplex_es.log.api import SessionLog
from duplex_es.log.memory import MemoryLog
from duplex_es.log.redis import RedisLog
from duplex_es.log.settings import LogSettings
from gateway.peer import Peer
from tests.gateway.stage import Client, FakeWorker, Gateway, audio_delta, joined, running, until
from tests.support.processes import StoreProcess

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

CROWD = 1_000
FRAMES = 1_500


@pytest.fixture
async def other(log: MemoryLog, worker: FakeWorker) -> AsyncIterator[Gateway]:
    """A second gateway on the same log."""
    async with running(log, "gateway-2") as gateway:
        yield gateway


async def test_a_second_resume_without_traffic_replays_nothing(
    gateway: Gateway, other: Gateway, worker: FakeWorker
) -> None:
    """E1: what was recovered once is not recovered again."""
    async with joined(gateway.url()) as client:
        created = await client.open(session_id="mine")
        client.socket.transport.abort()
    await worker.show("mine", *(audio_delta(bytes(8)) for _ in range(5)))
    async with joined(other.url("autostart=0")) as client:
        await client.resume(created, 1)
        resumed = await client.hear_type("session.resumed")
        seqs = [(await client.hear())["server_event_seq"] for _ in range(5)]
        client.socket.transport.abort()
    async with joined(gateway.url("autostart=0")) as client:
        await client.resume(resumed, seqs[-1])
        await client.hear_type("session.resumed")
        await client.say("session.heartbeat")
        assert (await client.hear_type("session.heartbeat_ack"))["server_event_seq"] == seqs[-1] + 1


async def test_a_replay_that_was_superseded_stops_where_it_is(
    gateway: Gateway, other: Gateway, worker: FakeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E3: a gateway that was held up in a replay sends nothing more of it once another socket has the session."""
    opened, held = asyncio.Event(), asyncio.Event()
    send = Peer.send

    async def held_up(peer: Peer, text: str) -> bool:
        if '"server_event_seq":5' in text and not held.is_set():
            held.set()
            await opened.wait()
        return await send(peer, text)

    monkeypatch.setattr(Peer, "send", held_up)
    async with joined(gateway.url()) as client:
        created = await client.open(session_id="mine")
        client.socket.transport.abort()
    await until(lambda: not gateway.service.connections)
    await worker.show("mine", *(audio_delta(bytes(8)) for _ in range(FRAMES)))
    async with joined(gateway.url("autostart=0")) as slow, joined(other.url("autostart=0")) as quick:
        await slow.resume(created, 1)
        resumed = await slow.hear_type("session.resumed")
        before = [(await slow.hear())["server_event_seq"] for _ in range(3)]
        await quick.resume(resumed, before[-1])
        await quick.hear_type("session.resumed")
        after = [(await quick.hear())["server_event_seq"] for _ in range(FRAMES + 1 - before[-1])]
        opened.set()
        late = await slow.hear_all()
    assert before + after == list(range(2, FRAMES + 2)), "each frame once"
    shown = [frame["server_event_seq"] for frame in late[:-1]]
    assert shown == list(range(5, 5 + len(shown)))
    assert len(shown) <= FRAMES // 2, "it stopped after what it had in its hands"
    assert late[-1]["type"] == "session.replaced"
    assert late[-1]["attachment_generation"] == 2


async def test_a_client_that_never_drains_its_replay_holds_up_nobody(
    gateway: Gateway, other: Gateway, worker: FakeWorker
) -> None:
    """E8: sessions share a gateway and a subscription, but no lock."""
    async with joined(gateway.url()) as client:
        created = await client.open(session_id="greedy")
        client.socket.transport.abort()
    for _ in range(300):
        await worker.show("greedy", audio_delta(bytes(50_000)))
    async with joined(other.url("autostart=0"), max_queue=1) as greedy, joined(other.url()) as polite:
        await greedy.resume(created, 1)
        await greedy.hear_type("session.resumed")
        greedy.socket.transport.pause_reading()
        await polite.open(session_id="polite")
        (held,) = (c for c in other.service.connections if c._attachment.ref.session_id == "greedy")  # type: ignore[attr-defined]
        await until(lambda: held._peer.blocked_for_s() > 0)  # type: ignore[attr-defined]
        for _ in range(200):
            await polite.say("session.heartbeat")
            await polite.hear_type("session.heartbeat_ack")
        assert held._peer.blocked_for_s() > 0, "it still takes nothing"  # type: ignore[attr-defined]
        greedy.socket.transport.resume_reading()
        assert [(await greedy.hear())["server_event_seq"] for _ in range(300)] == list(range(2, 302))


class Renewals:
    """Counts the renewals of a log."""

    def __init__(self, log: SessionLog) -> None:
        self.count = 0
        self._renew = log.renew
        log.renew = self.renew  # type: ignore[method-assign]

    async def renew(self, attachments: Any, claims: Any) -> Any:
        """As the log, and count."""
        self.count += bool(attachments)
        return await self._renew(attachments, claims)


@pytest.mark.parametrize("store", ["memory", "valkey"])
async def test_a_session_in_which_nothing_happens_stays_whole(store: str, valkey: StoreProcess) -> None:
    """E11: an idle session is no gap, whatever the store: not after many leases and looks at its head either."""
    settings = LogSettings(lease_s=1.0, probe_interval_s=0.05)
    log = MemoryLog(settings) if store == "memory" else RedisLog.from_url(valkey.url, settings)
    await log.connect()
    model = f"idle-{store}"
    async with (
        FakeWorker(log, models=(model,)).working() as worker,
        running(log, renew_interval_s=0.02) as gateway,
        AsyncExitStack() as stack,
    ):
        await until(lambda: gateway.service.fault is None)
        url = gateway.url(f"duplex=1&model={model}&session_id=idle-{store}")
        client = await stack.enter_async_context(joined(url))
        created = await client.hear_type("session.created")
        renewals = Renewals(log)
        renewing = asyncio.create_task(_keep_claimed(log, worker, f"idle-{store}"))
        await until(lambda: renewals.count > 200, patience_s=60)
        await client.say("session.heartbeat")
        assert (await client.hear())["server_event_seq"] == 1, "nothing was said meanwhile"
        client.socket.transport.abort()
        async with joined(gateway.url("autostart=0")) as again:
            await again.resume(created, 1)
            await again.hear_type("session.resumed")
            await again.say("session.heartbeat")
            assert (await again.hear())["server_event_seq"] == 2
        renewing.cancel()


async def _keep_claimed(log: SessionLog, worker: FakeWorker, session_id: str) -> None:
    while True:
        await log.renew([], [worker.claims[session_id]])
        await asyncio.sleep(0.05)


async def test_a_thousand_clients_that_come_back_at_once_all_come_back() -> None:
    """E41: they wait at one gate, a few are served at a time, who is told to come later does, and nobody is lost."""
    log, at_once = MemoryLog(), 8
    gates: list[int] = []
    attach = log.attach

    async def counted(ref: Any, **given: Any) -> Any:
        gates.append(at_once - heir.service.gate._free)
        return await attach(ref, **given)

    async with AsyncExitStack() as stack:
        worker = await stack.enter_async_context(FakeWorker(log, slots=10 * CROWD).working())
        dying = await stack.enter_async_context(running(log, "dying", ping_interval_s=0))
        heir = await stack.enter_async_context(
            running(log, "heir", ping_interval_s=0, admit_at_once=at_once, admit_waiting=CROWD // 2)
        )
        talker = await stack.enter_async_context(joined(heir.url(), ping_interval=None))
        await talker.open(session_id="talker")
        sockets, created = [], []
        for number in range(CROWD):
            client = await stack.enter_async_context(joined(dying.url(), ping_interval=None))
            created.append(await client.open(session_id=f"s{number}"))
            sockets.append(client)
        log.attach = counted  # type: ignore[method-assign]
        outcomes: Counter[str] = Counter()
        talking = asyncio.create_task(_talk(talker))
        for client in sockets:
            client.socket.transport.abort()
        await asyncio.gather(*(_come_back(heir, one, outcomes) for one in created))
        talking.cancel()
        (stopped,) = await asyncio.gather(talking, return_exceptions=True)
    assert outcomes["session.resumed"] == CROWD
    assert max(gates) <= at_once
    assert isinstance(stopped, asyncio.CancelledError), "the talker was answered all the time"
    assert len(worker.claims) == CROWD + 1


async def _talk(client: Client) -> None:
    """Speak and be answered, again and again. Raises: AssertionError when something else comes."""
    while True:
        await client.say("session.heartbeat")
        await client.hear_type("session.heartbeat_ack")


async def _come_back(gateway: Gateway, created: dict[str, Any], outcomes: Counter[str]) -> None:
    """Resume, as often as it takes, each time when told to."""
    while True:
        async with joined(gateway.url("autostart=0"), ping_interval=None, open_timeout=200) as client:
            await client.resume(created, 1)
            async with asyncio.timeout(200):  # a slow machine takes its time for so many
                answer = json.loads(await client.socket.recv())
            outcomes[answer["type"] if answer["type"] != "error" else answer["code"]] += 1
            if answer["type"] == "session.resumed":
                return
            assert answer["code"] == "duplex_session_busy", answer
        await asyncio.sleep(answer["retry_after_ms"] / 1000)
