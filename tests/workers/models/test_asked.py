"""What sessions of models that are asked turn by turn have in common."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from duplex_es.model import (
    CloseModel,
    EndTurn,
    Generate,
    HistoryItem,
    Interrupt,
    OpenModel,
    ReconfigureModel,
    ToolOutput,
)
from workers.models.asked import AskedSession
from workers.models.floor import Floor

pytestmark = pytest.mark.unit


class Answered:
    """An answer that says one word."""

    def __init__(self, word: str) -> None:
        self.word = word

    def said(self) -> Sequence[HistoryItem]:
        return (HistoryItem(item_id=self.word, role="assistant", text=self.word),)


class Parrot(AskedSession[str, Answered]):
    """Answers with its instructions, once it may."""

    def __init__(self) -> None:
        opened = OpenModel(session_id="s", incarnation=0, epoch=0, instructions="one")
        super().__init__(opened, Floor(lambda signal: None, output_rate_hz=24_000, lead_ms=0), "parrot")
        self._wish = "one"
        self.may_end = asyncio.Event()
        self.asked: list[tuple[str, list[str]]] = []

    def _wished(self, request: ReconfigureModel | Generate) -> str:
        return request.instructions or self._wish

    async def _answer(
        self, wish: str, history: Sequence[HistoryItem] | None = None, response_id: str | None = None
    ) -> None:
        self.asked.append((wish, [item.item_id for item in self._memory.told(history)]))
        self._floor.begin(response_id)
        telling = self._telling = Answered(wish)
        try:
            await self.may_end.wait()
        finally:
            if self._telling is telling:
                self._remember()

    async def until(self, answers: int) -> None:
        async with asyncio.timeout(30):
            while len(self.asked) < answers:
                await asyncio.sleep(0)


async def test_a_turn_is_answered_with_what_was_remembered_and_wished() -> None:
    session = Parrot()
    session.may_end.set()
    await session.perform(EndTurn(epoch=0, item_id="a", respond=True))
    await session.until(1)
    await session.perform(ToolOutput(epoch=0, call_id="call_1", output="24"))
    await session.perform(Generate(epoch=0, response_id="r", history=(), instructions="two"))
    await session.until(2)
    assert [wish for wish, _ in session.asked] == ["one", "two"]
    assert session.asked[0][1] == ["a"]
    await session.perform(CloseModel())


async def test_a_turn_that_asks_for_no_answer_gets_none() -> None:
    session = Parrot()
    await session.perform(EndTurn(epoch=0, item_id="a", respond=False))
    await session.perform(CloseModel())
    assert session.asked == []


async def test_new_settings_are_those_of_the_next_answer() -> None:
    session = Parrot()
    await session.perform(ReconfigureModel(instructions="new"))
    await session.perform(EndTurn(epoch=0, item_id="a", respond=True))
    await session.until(1)
    assert session.asked == [("new", ["a"])]
    await session.perform(CloseModel())


async def test_what_is_asked_behind_an_interruption_knows_the_answer_that_was_cut() -> None:
    session = Parrot()
    await session.perform(EndTurn(epoch=0, item_id="a", respond=True))
    await session.until(1)
    await session.perform(Interrupt(epoch=1))
    session.may_end.set()
    await session.perform(EndTurn(epoch=1, item_id="b", respond=True))
    await session.until(2)
    assert session.asked[1][1] == ["a", "one", "b"]
    await session.perform(CloseModel())
