"""Subscriptions are confirmed, survive what happens to their connection, and a deaf one is noticed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator

import pytest
import redis

from duplex_es.log.api import Record
from duplex_es.log.connections import connection_factory
from duplex_es.log.errors import ConfigurationError, LogUnavailable
from duplex_es.log.redis import RedisLog
from duplex_es.log.settings import LogSettings
from duplex_es.log.subscriber import Subscriber
from duplex_es.testing.log_stage import LogStage, eventually, ids, take
from tests.support.processes import StoreProcess, free_port
from tests.support.tcp_proxy import proxy_to

pytestmark = pytest.mark.redis

HASTY = LogSettings(probe_interval_s=1.0, socket_timeout_s=1.0, connect_timeout_s=1.0, append_timeout_s=2.0)


class Ear:
    """Keeps what it heard."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.resumptions = 0

    def received(self, data: bytes) -> None:
        self.heard.append(data)

    def resumed(self) -> None:
        self.resumptions += 1


def subscriber(url: str, settings: LogSettings = HASTY) -> Subscriber:
    return Subscriber(connection_factory(url, settings), settings)


@pytest.fixture
async def tested(own_valkey: StoreProcess) -> AsyncIterator[Subscriber]:
    made = subscriber(own_valkey.url, LogSettings())
    yield made
    await made.close()


@pytest.fixture
def raw(own_valkey: StoreProcess) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(own_valkey.url) as client:
        yield client


async def heard(ear: Ear, expected: list[bytes]) -> None:
    async def what() -> list[bytes]:
        return list(ear.heard)

    await eventually(what, lambda found: found == expected)


async def test_what_is_published_after_the_confirmation_is_heard(tested: Subscriber, raw: redis.Redis) -> None:
    for n in range(200):
        ear = Ear()
        await tested.subscribe(f"c{n}", ear)
        assert raw.publish(f"c{n}", b"%d" % n) == 1
        await heard(ear, [b"%d" % n])
    assert tested.reconnects == 0


async def test_listeners_share_a_channel_and_leave_alone(tested: Subscriber, raw: redis.Redis) -> None:
    one, two = Ear(), Ear()
    await asyncio.gather(tested.subscribe("c", one), tested.subscribe("c", two))
    raw.publish("c", b"a")
    await heard(one, [b"a"])
    await heard(two, [b"a"])
    tested.unsubscribe("c", one)
    tested.unsubscribe("c", one)
    assert raw.publish("c", b"b") == 1
    await heard(two, [b"a", b"b"])
    tested.unsubscribe("c", two)

    async def listeners() -> int:
        return int(raw.pubsub_numsub("c")[0][1])

    await eventually(listeners, lambda count: count == 0)
    assert one.heard == [b"a"]


async def test_leaving_and_joining_in_a_hurry_ends_in_a_subscription(tested: Subscriber, raw: redis.Redis) -> None:
    for _ in range(200):
        ear = Ear()
        joining = asyncio.create_task(tested.subscribe("c", ear))
        await asyncio.sleep(0)
        joining.cancel()
        await asyncio.gather(joining, return_exceptions=True)
        await tested.subscribe("c", ear)
        assert raw.publish("c", b"x") == 1
        await heard(ear, [b"x"])
        tested.unsubscribe("c", ear)


async def test_an_answer_to_an_earlier_subscription_confirms_nothing() -> None:
    tested, ear = subscriber(f"redis://127.0.0.1:{free_port()}/0"), Ear()
    joining = asyncio.create_task(tested.subscribe("c", ear))
    await asyncio.sleep(0)
    # Joined, left and joined again: the first answer is followed by that to the leaving.
    tested._count([("SUBSCRIBE", b"c"), ("UNSUBSCRIBE", b"c"), ("SUBSCRIBE", b"c")])
    tested._take([b"subscribe", b"c", 1])
    tested._take([b"unsubscribe", b"c", 0])
    await asyncio.sleep(0.01)
    assert not joining.done()
    tested._take([b"subscribe", b"c", 1])
    await joining
    await tested.close()


async def test_one_connection_carries_thousands_of_channels(tested: Subscriber, raw: redis.Redis) -> None:
    ear = Ear()
    await asyncio.gather(*(tested.subscribe(f"c{n}", ear) for n in range(3000)))
    assert raw.info("clients")["connected_clients"] == 2
    assert raw.publish("c2999", b"last") == 1
    raw.execute_command("CLIENT", "KILL", "TYPE", "pubsub")

    async def resumptions() -> int:
        return ear.resumptions

    await eventually(resumptions, lambda count: count == 3000)
    assert raw.publish("c1500", b"again") == 1
    await heard(ear, [b"last", b"again"])


async def test_a_silent_connection_is_probed_and_kept(own_valkey: StoreProcess, raw: redis.Redis) -> None:
    async with proxy_to(own_valkey.port) as proxy:
        tested, ear = subscriber(proxy.url), Ear()
        await tested.subscribe("c", ear)
        raw.config_resetstat()

        async def probes() -> int:
            return int(raw.info("commandstats").get("cmdstat_publish", {}).get("calls", 0))

        await eventually(probes, lambda count: count >= 3)
        assert (tested.reconnects, proxy.connections, ear.resumptions) == (0, 1, 0)
        await tested.close()


async def test_a_deaf_connection_is_replaced_within_two_intervals(  # E26
    own_valkey: StoreProcess, raw: redis.Redis
) -> None:
    settings = LogSettings(probe_interval_s=1.0, socket_timeout_s=0.4, connect_timeout_s=0.5)
    async with proxy_to(own_valkey.port) as proxy:
        tested, ear = subscriber(proxy.url, settings), Ear()
        await tested.subscribe("c", ear)
        proxy.is_deaf = True
        began = time.monotonic()

        async def reconnects() -> int:
            return tested.reconnects

        await eventually(reconnects, lambda count: count > 0)
        assert time.monotonic() - began < 2 * settings.probe_interval_s + 5.0
        proxy.is_deaf = False

        async def resumptions() -> int:
            return ear.resumptions

        await eventually(resumptions, lambda count: count == 1)
        raw.publish("c", b"back")
        await heard(ear, [b"back"])
        await tested.close()


async def test_a_closed_subscriber_confirms_nothing_until_it_is_connected_again(
    tested: Subscriber, raw: redis.Redis
) -> None:
    one, two = Ear(), Ear()
    await tested.subscribe("c", one)
    await tested.close()
    await tested.subscribe("c", two)
    assert raw.publish("c", b"x") == 1
    await heard(one, [b"x"])
    await heard(two, [b"x"])
    assert one.resumptions == 1


async def test_a_store_that_is_away_refuses_the_subscription_in_time() -> None:
    tested = subscriber(f"redis://127.0.0.1:{free_port()}/0")
    began = time.monotonic()
    with pytest.raises(LogUnavailable):
        await tested.subscribe("c", Ear())
    assert 1.5 < time.monotonic() - began < 20.0
    await tested.close()


async def test_a_forbidden_subscription_is_a_matter_of_configuration(
    own_valkey: StoreProcess, raw: redis.Redis
) -> None:
    raw.execute_command("ACL", "SETUSER", "mute", "on", ">secret", "~*", "+@all", "-subscribe")
    tested = subscriber(own_valkey.url.replace("redis://", "redis://mute:secret@"))
    with pytest.raises(ConfigurationError):
        await tested.subscribe("c", Ear())
    await tested.close()


async def test_followers_catch_up_when_their_subscription_was_killed(
    own_valkey: StoreProcess, raw: redis.Redis
) -> None:  # E32
    log = RedisLog.from_url(own_valkey.url)
    attachment, claim = await LogStage.claimed(log, "echo")

    async def kill() -> int:
        return int(raw.execute_command("CLIENT", "KILL", "TYPE", "pubsub"))

    async with log.follow_output(attachment.ref) as output, log.follow_input(attachment.ref) as said:
        output.start((await log.head(attachment.ref.session_id)).output)
        said.start((await log.head(attachment.ref.session_id)).input)
        for number in range(1, 41):
            if number % 10 == 5:
                await eventually(kill, lambda killed: killed > 0)
            await log.append_output(claim, number, [Record(b"%d" % number)])
            await log.append_input(attachment, number, [Record(b"%d" % number)])
        numbers = [f"1-{number}" for number in range(1, 41)]
        assert ids(await take(output, 40)) == numbers
        assert ids(await take(said, 40)) == numbers
        assert log.nodes.node.subscriber.reconnects >= 1
    await log.close_connections()


async def test_a_follower_cut_off_at_the_end_still_hears_of_it(own_valkey: StoreProcess, raw: redis.Redis) -> None:
    log = RedisLog.from_url(own_valkey.url)
    other = RedisLog.from_url(own_valkey.url)
    attachment, claim = await LogStage.claimed(other, "echo")
    async with log.follow_output(attachment.ref) as follower:
        follower.start((await log.head(attachment.ref.session_id)).output)
        raw.execute_command("CLIENT", "KILL", "TYPE", "pubsub")
        # Nothing follows that could show the hole.
        await other.append_output(claim, 1, [Record(b"last words")])
        await other.close(claim, "done")
        async with asyncio.timeout(30):
            found = ids([item async for item in follower])
        assert found[-2:] == ["1-1", "Ended"]
    await log.close_connections()
    await other.close_connections()


async def test_channels_move_to_another_connection_with_those_who_listen(
    tested: Subscriber, own_valkey: StoreProcess, raw: redis.Redis
) -> None:
    """As when a slot gets another node: who hears of the new place only must first learn that it missed something."""
    other, ear, waiting = subscriber(own_valkey.url, LogSettings()), Ear(), Ear()
    await tested.subscribe("c", ear)
    await tested.subscribe("stays", Ear())
    other.adopt(tested.let_go(["c", "unknown"]))
    assert (tested.names(), other.names()) == (["stays"], ["c"])

    async def resumptions() -> int:
        return ear.resumptions

    await eventually(resumptions, lambda count: count == 1)
    await other.subscribe("c", waiting)

    async def listeners() -> int:
        return int(raw.pubsub_numsub("c")[0][1])

    await eventually(listeners, lambda count: count == 1)
    raw.publish("c", b"here")
    await heard(ear, [b"here"])
    await heard(waiting, [b"here"])
    assert waiting.resumptions == 0
    other.unsubscribe("c", ear)
    other.unsubscribe("c", waiting)
    await eventually(listeners, lambda count: count == 0)
    await other.close()


async def test_whoever_waits_for_a_confirmation_moves_along(own_valkey: StoreProcess, raw: redis.Redis) -> None:
    away, here, ear = subscriber(f"redis://127.0.0.1:{free_port()}/0"), subscriber(own_valkey.url), Ear()
    joining = asyncio.create_task(away.subscribe("c", ear))
    await asyncio.sleep(0.05)
    here.adopt(away.let_go(["c"]))
    await asyncio.wait_for(joining, 30)
    assert (raw.publish("c", b"x"), ear.resumptions) == (1, 0)
    await heard(ear, [b"x"])
    for one in (away, here):
        await one.close()
