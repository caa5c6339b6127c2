"""Commands leave in order, and what did not arrive leaves again."""

from __future__ import annotations

import json

import pytest
from msgspec import UNSET

from duplex_es.protocol import AcknowledgeEvents, AppendAudio, ClearInput, Heartbeat
from workers.models.bridge import outbox as module
from workers.models.bridge.outbox import Outbox

pytestmark = pytest.mark.unit


async def sent(outbox: Outbox, count: int) -> list[str]:
    return [json.loads(await outbox.next()).get("event_id", "-") for _ in range(count)]


def appended(name: str, size: int = 2) -> AppendAudio:
    return AppendAudio(audio=bytes(size), event_id=name)


async def test_what_is_put_in_first_comes_out_first() -> None:
    outbox = Outbox()
    outbox.put(appended("a"), appended("b"))
    outbox.put(ClearInput(event_id="c"))
    assert await sent(outbox, 3) == ["a", "b", "c"]


async def test_what_did_not_arrive_is_sent_again_before_the_rest() -> None:
    outbox = Outbox()
    outbox.put(appended("a"), AcknowledgeEvents(server_event_seq=1), appended("b"), appended("c"), appended("d"))
    await sent(outbox, 4)
    outbox.resumed("a")
    assert await sent(outbox, 3) == ["b", "c", "d"]


async def test_all_is_sent_again_when_none_arrived() -> None:
    outbox = Outbox()
    outbox.put(appended("a"), appended("b"))
    await sent(outbox, 2)
    outbox.resumed(None)
    assert await sent(outbox, 2) == ["a", "b"]


async def test_where_the_server_does_not_say_what_was_sent_has_arrived() -> None:
    outbox = Outbox()
    outbox.put(appended("a"), appended("b"))
    await sent(outbox, 1)
    outbox.resumed(UNSET)
    assert await sent(outbox, 1) == ["b"]


async def test_what_a_heartbeat_confirmed_is_not_sent_again() -> None:
    outbox = Outbox()
    outbox.put(appended("a"), Heartbeat(event_id="beat"), appended("b"))
    await sent(outbox, 3)
    outbox.confirmed()
    outbox.resumed(None)
    assert await sent(outbox, 1) == ["b"]


async def test_too_much_audio_is_dropped_from_the_oldest_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_AUDIO_BYTES", 10)
    outbox = Outbox()
    assert outbox.put(appended("a", 6), ClearInput(event_id="x")) == 0
    assert outbox.put(appended("b", 6)) == 6
    assert await sent(outbox, 2) == ["x", "b"]


async def test_another_session_gets_only_the_audio_that_waits() -> None:
    outbox = Outbox()
    outbox.put(appended("a"), ClearInput(event_id="x"), appended("b"))
    await sent(outbox, 1)
    outbox.clear()
    assert await sent(outbox, 1) == ["b"]
