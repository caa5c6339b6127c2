"""An engine that hangs is told from one that is only slow, by the questions that it leaves unanswered."""

from __future__ import annotations

import asyncio

import pytest

from workers.engine.pulse import Pulse

pytestmark = pytest.mark.unit


async def test_silence_is_noticed_after_so_many_questions() -> None:
    asked: list[int] = []
    pulse = Pulse(lambda: asked.append(1), every_s=0, most=3)
    await asyncio.wait_for(pulse.stopped(), 30)
    assert len(asked) == 3


async def test_an_answer_begins_the_count_anew() -> None:
    asked: list[int] = []

    def ask() -> None:
        asked.append(1)
        if len(asked) < 50:
            pulse.beat()

    pulse = Pulse(ask, every_s=0, most=3)
    await asyncio.wait_for(pulse.stopped(), 30)
    assert len(asked) == 52
