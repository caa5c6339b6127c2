"""The order of things in one session; over a real engine process without a model in it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from duplex_es.model import CloseModel, EndTurn, HistoryItem, ModelFinished, ModelMeasured, OpenModel, Signal
from tests.support.ears import Ear
from workers.engine.contract import EngineFacts
from workers.engine.process import EngineProcess
from workers.models.qwen3omni.asking import Wish
from workers.models.qwen3omni.options import QwenOptions
from workers.models.qwen3omni.session import QwenSession

pytestmark = pytest.mark.unit

TOY = "tests.support.toy_chat:ToyChat"


@pytest.fixture
async def engine() -> AsyncIterator[EngineProcess]:
    engine = EngineProcess(TOY, {"weights": "x"})
    await engine.start(timeout_s=20)
    yield engine
    await engine.stop()


def session_of(engine: EngineProcess, ear: Ear[Signal]) -> QwenSession:
    facts = EngineFacts("toy", 20, 16_000, 24_000, 2, 0, 0)
    history = (HistoryItem(item_id="a", role="user", text="hello"),)
    request = OpenModel(session_id="s", incarnation=0, epoch=0, history=history)
    options = QwenOptions(weights="x", lead_ms=None)
    return QwenSession(engine, facts, request, ear, options, Wish(aloud=False))


async def test_answers_come_one_after_another_in_the_order_of_the_turns(engine: EngineProcess) -> None:
    ear: Ear[Signal] = Ear(20)
    session = session_of(engine, ear)
    for item in ("b", "c"):
        await session.perform(EndTurn(epoch=0, item_id=item, respond=True))
    await ear.until(lambda heard: sum(isinstance(signal, ModelFinished) for signal in heard) == 2)
    turns = [signal.turn for signal in ear.heard if hasattr(signal, "turn")]
    assert turns == sorted(turns)
    await session.perform(CloseModel())
    assert not session.is_open


async def test_a_session_that_closes_leaves_nothing_in_the_engine(engine: EngineProcess) -> None:
    ear: Ear[Signal] = Ear(20)
    session = session_of(engine, ear)
    await session.perform(EndTurn(epoch=0, item_id="b", respond=True))
    await ear.until(lambda heard: bool(heard))
    await session.perform(CloseModel())
    told = len(ear.heard)
    assert engine._sessions == {}
    session.begin_again()
    assert len(ear.heard) == told


async def test_an_answers_stages_are_told_once_right_before_its_end(engine: EngineProcess) -> None:
    ear: Ear[Signal] = Ear(20)
    session = session_of(engine, ear)
    await session.perform(EndTurn(epoch=0, item_id="b", respond=True))
    await ear.until(lambda heard: isinstance(heard[-1], ModelFinished) if heard else False)
    (measured,) = (signal for signal in ear.heard if isinstance(signal, ModelMeasured))
    ended = ear.heard[-1]
    assert isinstance(ended, ModelFinished) and ear.heard.index(measured) >= len(ear.heard) - 3
    words = measured.stages["0"]
    assert (words.num_tokens_in, words.num_tokens_out) == (ended.input_tokens, ended.output_tokens)
    assert words.vllm_ttft_ms > 0
    await session.perform(CloseModel())
