"""One turn as a stream: cancelled, refused, failed, and carried over the death of its engine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from workers.engine.process import EngineProcess
from workers.engine.turns import TurnPiece
from workers.models.turn_line import MOST_ENGINES, TurnLine, TurnRefused

pytestmark = pytest.mark.unit

TOY = "tests.support.toy_turns:ToyTurns"
PATIENCE_S = 60.0


@pytest.fixture
async def engine() -> AsyncIterator[EngineProcess]:
    engine = EngineProcess(TOY, {"slots": "1"})
    await engine.start(timeout_s=PATIENCE_S)
    yield engine
    await engine.stop()


async def said(line: TurnLine) -> str:
    return "".join([piece.text async for piece in line.pieces()])


async def test_a_turn_is_over_with_its_last_piece(engine: EngineProcess) -> None:
    pieces = [piece async for piece in TurnLine(engine, "a", {"say": "abc"}).pieces()]
    assert "".join(piece.text for piece in pieces) == "abc"
    assert [bool(piece.ends) for piece in pieces] == [False, False, False, True]
    assert engine._sessions == {}


async def test_a_stream_that_is_closed_cancels_its_turn(engine: EngineProcess) -> None:
    async with aclosing(TurnLine(engine, "a", {"endless": True}).pieces()) as pieces:
        assert isinstance(await anext(pieces), TurnPiece)
    # There is one slot: this would wait for ever.
    assert await said(TurnLine(engine, "b", {"say": "b"})) == "b"


async def test_what_is_refused_says_why(engine: EngineProcess) -> None:
    with pytest.raises(TurnRefused, match="no such voice") as refused:
        await said(TurnLine(engine, "a", {"voice": "unknown"}))
    assert refused.value.code == "invalid_duplex_runtime_config"


async def test_a_sick_turn_fails_and_the_engine_goes_on(engine: EngineProcess) -> None:
    with pytest.raises(TurnRefused) as refused:
        await said(TurnLine(engine, "a", {"say": "ab!"}))
    assert refused.value.code == "response_error"
    assert await said(TurnLine(engine, "b", {"say": "b"})) == "b"


async def test_a_turn_goes_on_in_the_next_engine_however_late_its_pieces_are_read(engine: EngineProcess) -> None:
    line = TurnLine(engine, "a", {"say": "abZd"})
    async with aclosing(line.pieces()) as pieces:
        assert (await anext(pieces)).text == "a"
        await engine.ended()
        # Nothing of the rest was read when the engine died and the next one is asked.
        await engine.start(timeout_s=PATIENCE_S)
        line._asked = {"say": "abcd"}
        line.begin_again()
        line.begin_again()
        assert "".join([piece.text async for piece in pieces]) == "bcd"


async def test_a_turn_asked_while_there_is_no_engine_waits_for_one() -> None:
    engine = EngineProcess(TOY, {"slots": "1"})
    line = TurnLine(engine, "a", {"say": "abc"})
    async with aclosing(line.pieces()) as pieces:
        first = anext(pieces)
        await engine.start(timeout_s=PATIENCE_S)
        line.begin_again()
        assert (await first).text == "a"
    await engine.stop()


async def test_a_turn_that_engines_die_of_is_not_asked_for_ever() -> None:
    engine = EngineProcess(TOY, {"slots": "1"})
    line = TurnLine(engine, "a", {"say": "aXb"})

    async def restarts() -> None:
        for _ in range(MOST_ENGINES + 1):
            await engine.start(timeout_s=PATIENCE_S)
            line.begin_again()
            if line._life < MOST_ENGINES:
                await engine.ended()

    starting = asyncio.create_task(restarts())
    with pytest.raises(TurnRefused, match="again and again") as refused:
        await said(line)
    assert (refused.value.code, line._life) == ("worker_lost", MOST_ENGINES)
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)
    await engine.stop()


async def test_a_turn_gives_up_when_no_engine_comes() -> None:
    line = TurnLine(EngineProcess(TOY, {}), "a", {"say": "abc"}, patience_s=0.01)
    with pytest.raises(TurnRefused) as refused:
        await said(line)
    assert refused.value.code == "worker_lost"
