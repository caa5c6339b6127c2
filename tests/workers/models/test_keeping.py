"""An engine kept alive: its sessions are let go with their callers, and go on in the next engine."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from duplex_es.model import ModelRefused
from workers.engine.process import EngineLost, EngineProcess
from workers.models.keeping import EngineKeeper

pytestmark = pytest.mark.unit

TOY = "tests.support.toy_engine:ToyEngine"
PATIENCE_S = 20.0


class Call:
    """A session that notes how often it was begun again."""

    def __init__(self, *, opens: bool = True) -> None:
        self.is_open = True
        self.lives = asyncio.Queue[int]()
        self._opens = opens

    async def open(self) -> None:
        if not self._opens:
            raise EngineLost("no room")

    def begin_again(self) -> None:
        self.lives.put_nowait(1)


def keeper() -> EngineKeeper:
    return EngineKeeper(EngineProcess(TOY, {}))


async def test_a_session_whose_caller_is_gone_is_let_go_with_the_next_opening() -> None:
    kept = keeper()
    first, second = Call(), Call()
    assert await kept.opened(first, "first") is first
    first.is_open = False
    await kept.opened(second, "second")
    assert kept._sessions == {second}


async def test_a_session_that_cannot_be_opened_is_refused_and_not_kept() -> None:
    kept = keeper()
    with pytest.raises(ModelRefused) as refused:
        await kept.opened(Call(opens=False), "s")
    assert refused.value.code == "runtime_open_failed"
    assert kept._sessions == set()


async def test_nothing_is_known_of_an_engine_before_it_is_loaded_and_after_it_is_gone() -> None:
    kept = keeper()
    with pytest.raises(ModelRefused, match="being loaded"):
        kept.facts()
    facts = await kept.load()
    assert kept.facts() == facts
    await kept.unload()
    with pytest.raises(ModelRefused, match="being loaded"):
        kept.facts()
    await kept.unload()


async def test_those_who_are_still_there_go_on_when_the_engine_died() -> None:
    kept = keeper()
    await kept.load()
    kept.keep()
    here, gone = Call(), Call()
    await kept.opened(here, "here")
    await kept.opened(gone, "gone")
    gone.is_open = False
    pid = kept.engine.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    async with asyncio.timeout(PATIENCE_S):
        await here.lives.get()
    assert gone.lives.empty()
    assert kept.facts().name == "toy"
    await kept.unload()


async def test_an_engine_that_dies_again_before_its_sessions_are_back_is_started_once_more() -> None:
    kept = keeper()

    class Unlucky(Call):
        """The first engine it is begun again in dies under it."""

        def begin_again(self) -> None:
            super().begin_again()
            if self.lives.qsize() == 1:
                assert kept.engine.pid is not None
                os.kill(kept.engine.pid, signal.SIGKILL)
                raise EngineLost("the engine's process is gone")

    await kept.load()
    kept.keep()
    call = await kept.opened(Unlucky(), "s")
    assert kept.engine.pid is not None
    os.kill(kept.engine.pid, signal.SIGKILL)
    async with asyncio.timeout(PATIENCE_S):
        while call.lives.qsize() < 2:
            await asyncio.sleep(0.01)
    assert kept.facts().name == "toy"
    await kept.unload()
