"""Requests are told once, in order, with what went before them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from duplex_es.model import EndTurn, FeedAudio, Generate, HistoryItem, ToolOutput
from workers.models.bridge.card import card
from workers.models.bridge.hearing import Hearing
from workers.models.bridge.outbox import Outbox
from workers.models.bridge.past import Past
from workers.models.bridge.presets import PRESETS
from workers.models.bridge.standing import Answer, Standing
from workers.models.bridge.telling import Telling

pytestmark = pytest.mark.unit


class Desk:
    def __init__(self, **standing: Any) -> None:
        info = card("b", PRESETS["any"], None, keeps_token=True)
        self.hearing = Hearing(Standing(session_id="s", **standing), info, Past())
        self.outbox = Outbox()
        self.telling = Telling(self.hearing, self.outbox, info, PRESETS["any"])

    async def told(self, count: int) -> list[dict[str, Any]]:
        return [json.loads(await self.outbox.next()) for _ in range(count)]

    @property
    def is_silent(self) -> bool:
        return not self.outbox._waiting


def feed(end_ms: int) -> FeedAudio:
    return FeedAudio(epoch=0, pcm=bytes(320 * 4), end_ms=end_ms)


def ask(response_id: str, *texts: str) -> Generate:
    history = tuple(HistoryItem(item_id=text, role="user", text=text) for text in texts)
    return Generate(epoch=0, response_id=response_id, history=history)


async def test_audio_that_the_server_has_is_not_told_again() -> None:
    desk = Desk()
    desk.telling.fed_before_ms = 20
    for end_ms in (20, 40):
        desk.telling.feed(feed(end_ms))
    assert [event["type"] for event in await desk.told(1)] == ["input_audio_buffer.append"]
    assert desk.is_silent
    assert (desk.telling.standing.sent.audio_ms, desk.telling.standing.offset_ms) == (40, 20)


async def test_pictures_go_with_the_sound_they_came_with_or_the_next() -> None:
    desk = Desk()
    for end_ms, pcm, frames in ((0, b"", (b"a", b"b", b"c")), (20, bytes(320 * 4), ()), (40, bytes(320 * 4), (b"d",))):
        desk.telling.feed(FeedAudio(epoch=0, pcm=pcm, end_ms=end_ms, frames=frames))
    desk.telling.feed(feed(60))
    told = await desk.told(3)
    assert [event.get("video_frames") for event in told] == [["Yg==", "Yw=="], ["ZA=="], None]
    assert desk.is_silent


async def test_a_turn_is_ended_once() -> None:
    desk = Desk()
    for _ in range(2):
        desk.telling.end_turn(EndTurn(epoch=0, item_id="mine", respond=False))
    (event,) = await desk.told(1)
    assert (event["type"], event["response_create"]) == ("input.commit", False)
    assert desk.is_silent
    assert desk.telling.standing.unwanted


async def test_an_answer_is_asked_for_once_after_what_was_typed() -> None:
    desk = Desk()
    desk.telling.generate(ask("r1", "a"))
    desk.telling.generate(ask("r1", "a"))
    desk.telling.generate(ask("r2", "a", "b"))
    kinds = [(event["type"], event.get("item", {}).get("id")) for event in await desk.told(4)]
    assert kinds == [
        ("conversation.item.create", "a"),
        ("response.create", None),
        ("conversation.item.create", "b"),
        ("response.create", None),
    ]
    assert desk.is_silent


async def test_an_output_that_wants_no_answer_waits_for_the_next_request() -> None:
    desk = Desk()
    desk.telling.tool_output(ToolOutput(epoch=0, call_id="c1", output="7", respond=False))
    assert desk.is_silent
    desk.telling.generate(ask("r1"))
    assert [event["type"] for event in await desk.told(2)] == ["conversation.item.create", "response.create"]
    desk.telling.tool_output(ToolOutput(epoch=0, call_id="c2", output="8"))
    (event,) = await desk.told(1)
    assert event["item"]["call_id"] == "c2"


async def test_an_interruption_says_what_was_heard_then_cancels_then_asks_when_it_is_done() -> None:
    desk = Desk(answers={"r1": Answer(epoch=0, turn=0)}, last_answer="r1", asked=["mine"])
    desk.hearing.marks, desk.hearing.duration_ms = [(4, 200)], 200
    desk.telling.cut(1, "ab")
    desk.telling.cut(1, "ab")
    events = await desk.told(3)
    assert [event["type"] for event in events] == ["playback.ack", "response.cancel", "session.heartbeat"]
    assert (events[0]["played_ms"], events[0]["truncate"]) == (100, True)
    assert desk.is_silent
    standing = desk.telling.standing
    assert (standing.cutting, standing.asked, standing.answers["r1"].stale) == (1, [], True)
    assert desk.telling.beats == [True]
