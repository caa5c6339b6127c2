"""Many sessions, one network call."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from workers.vad.batcher import MOST_ROWS, VadBatcher
from workers.vad.silero import FRAME_SAMPLES, Floats, SileroVad, VadState

pytestmark = pytest.mark.unit


class CountingVad(SileroVad):
    """Answers each frame with its first sample, and remembers how many rows each call had."""

    def __init__(self) -> None:
        self.calls: list[int] = []

    def step(self, states: Sequence[VadState], frames: Sequence[Floats]) -> Floats:
        self.calls.append(len(frames))
        if any(frame[0] < 0 for frame in frames):
            raise RuntimeError("the network broke")
        return np.array([frame[0] for frame in frames], np.float32)


@pytest.fixture
def executor() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


def frames(*values: float) -> list[Floats]:
    return [np.full(FRAME_SAMPLES, value, np.float32) for value in values]


async def test_every_frame_gets_its_own_answer_in_order(executor: ThreadPoolExecutor) -> None:
    batcher = VadBatcher(CountingVad(), executor)
    assert await batcher.probabilities(VadState(), frames(0.25, 0.5, 0.75)) == [0.25, 0.5, 0.75]
    assert await batcher.probabilities(VadState(), []) == []


async def test_sessions_that_wait_together_share_a_call(executor: ThreadPoolExecutor) -> None:
    vad = CountingVad()
    batcher = VadBatcher(vad, executor)
    asked = [batcher.probabilities(VadState(), frames(n / 64, 0.5)) for n in range(40)]
    answers = await asyncio.gather(*asked)
    assert [answer[0] for answer in answers] == [n / 64 for n in range(40)]
    assert sum(vad.calls) == 80
    assert max(vad.calls) == MOST_ROWS
    assert len(vad.calls) <= 6


async def test_a_failure_reaches_those_it_concerns_and_the_next_ask_works(executor: ThreadPoolExecutor) -> None:
    batcher = VadBatcher(CountingVad(), executor)
    with pytest.raises(RuntimeError, match="broke"):
        await batcher.probabilities(VadState(), frames(-1.0))
    assert await batcher.probabilities(VadState(), frames(0.5)) == [0.5]


async def test_a_caller_that_gave_up_does_not_hold_up_the_others(executor: ThreadPoolExecutor) -> None:
    batcher = VadBatcher(CountingVad(), executor)
    given_up = asyncio.create_task(batcher.probabilities(VadState(), frames(*[0.25] * 50)))
    waiting = asyncio.create_task(batcher.probabilities(VadState(), frames(0.5)))
    await asyncio.sleep(0)
    given_up.cancel()
    assert await waiting == [0.5]
