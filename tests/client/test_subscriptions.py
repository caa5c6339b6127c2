"""Fan-out of events to consumers of different speed."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

from duplex_es.client import DuplexSessionClosedError
from duplex_es.client.events import DuplexEvent, view
from duplex_es.client.subscriptions import QUEUE_EVENTS, Subscription, Subscriptions

pytestmark = pytest.mark.unit


def numbers(events: list[DuplexEvent]) -> list[int]:
    return [event.raw["n"] for event in events]


def event(n: int) -> DuplexEvent:
    return view({"type": "x", "n": n})


async def read_all(subscription: Subscription) -> list[DuplexEvent]:
    return [each async for each in subscription]


async def test_every_consumer_gets_what_came_after_it_subscribed_in_order() -> None:
    subscriptions = Subscriptions()
    early = subscriptions.add()
    subscriptions.put(event(1))
    late = subscriptions.add()
    subscriptions.put(event(2))
    subscriptions.end(None)
    assert numbers(await read_all(early)) == [1, 2]
    assert numbers(await read_all(late)) == [2]


async def test_a_waiting_consumer_wakes_for_the_next_event() -> None:
    subscriptions = Subscriptions()
    subscription = subscriptions.add()
    waiting = asyncio.create_task(anext(subscription))
    await asyncio.sleep(0)
    subscriptions.put(event(7))
    assert (await waiting).raw["n"] == 7


async def test_a_consumer_that_never_reads_misses_the_oldest_and_is_told_how_many() -> None:
    subscription = Subscription()
    for n in range(QUEUE_EVENTS + 3):
        subscription.put(event(n))
    subscription.end(None)
    assert subscription.missed_count == 3
    assert numbers(await read_all(subscription))[:2] == [3, 4]


async def test_an_unexpected_end_is_raised_only_after_everything_was_read() -> None:
    subscriptions = Subscriptions()
    subscription = subscriptions.add()
    subscriptions.put(event(1))
    subscriptions.end("connection lost")
    assert (await anext(subscription)).raw["n"] == 1
    with pytest.raises(DuplexSessionClosedError, match="connection lost"):
        await anext(subscription)


async def test_a_consumer_that_comes_after_the_end_is_told_at_once() -> None:
    subscriptions = Subscriptions()
    subscriptions.end("expired")
    subscriptions.end(None)
    with pytest.raises(DuplexSessionClosedError, match="expired"):
        await anext(subscriptions.add())


async def test_a_consumer_that_nobody_holds_any_more_is_let_go() -> None:
    subscriptions = Subscriptions()
    gone = weakref.ref(subscriptions.add())
    kept = subscriptions.add()
    gc.collect()
    assert gone() is None
    subscriptions.put(event(1))
    assert (await anext(kept)).raw["n"] == 1


async def test_what_came_before_there_was_any_consumer_is_kept_for_the_first_ones_where_that_is_asked() -> None:
    subscriptions = Subscriptions(keeps_first=True)
    subscriptions.put(event(1))
    subscriptions.put(event(2))
    first, second = subscriptions.add(), subscriptions.add()
    subscriptions.put(event(3))
    late = subscriptions.add()
    subscriptions.end(None)
    assert numbers(await read_all(first)) == [1, 2, 3]
    assert numbers(await read_all(second)) == [1, 2, 3]
    assert numbers(await read_all(late)) == []


async def test_what_is_kept_for_the_first_consumer_is_bounded_too() -> None:
    subscriptions = Subscriptions(keeps_first=True)
    for n in range(QUEUE_EVENTS + 3):
        subscriptions.put(event(n))
    first = subscriptions.add()
    subscriptions.end(None)
    assert numbers(await read_all(first))[0] == 3


async def test_a_discarded_consumer_is_no_longer_fed() -> None:
    subscriptions = Subscriptions()
    subscription = subscriptions.add()
    subscriptions.discard(subscription)
    subscriptions.put(event(1))
    subscription.end(None)
    assert await read_all(subscription) == []
