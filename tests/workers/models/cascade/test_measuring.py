"""The mind of a cascade: what it is told to have done for an answer."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from duplex_es.model import StageMetrics
from workers.models.cascade.dialogue.scene import Call, Counted, Part, Say
from workers.models.cascade.measuring import Thinking

pytestmark = pytest.mark.unit


class Clock:
    """Seconds that pass where a test says so."""

    now_s = 5.0

    def __call__(self) -> float:
        return self.now_s


async def test_only_the_time_counts_in_which_the_mind_is_waited_for() -> None:
    clock = Clock()

    async def mind() -> AsyncGenerator[Part, None]:
        clock.now_s += 0.25
        yield Say("One. ")
        clock.now_s += 0.5
        yield Say("Two.")
        yield Call("f", "{}")
        yield Counted(40, 12)

    thinking = Thinking(clock)
    said = []
    async for part in thinking.watch(mind()):
        said.append(part)
        clock.now_s += 60.0  # it is spoken
    assert said == [Say("One. "), Say("Two."), Call("f", "{}")]
    assert thinking.told() == StageMetrics(
        num_tokens_in=40,
        num_tokens_out=12,
        stage_gen_time_ms=750.0,
        vllm_ttft_ms=250.0,
        output_unit_count=2,
        final_output_type="text",
    )


async def test_what_was_told_is_not_told_again_but_for_when_it_began() -> None:
    clock = Clock()

    async def mind() -> AsyncGenerator[Part, None]:
        clock.now_s += 0.25
        yield Say("One. ")
        clock.now_s += 0.5
        yield Say("Two.")

    thinking = Thinking(clock)
    told = [thinking.told() async for _ in thinking.watch(mind())]
    assert [one.stage_gen_time_ms for one in told] == [250.0, 500.0]
    assert [one.vllm_ttft_ms for one in told] == [250.0, 250.0]
    assert [one.output_unit_count for one in told] == [1, 1]


async def test_what_it_took_to_understand_comes_before_the_first_word() -> None:
    clock = Clock()

    async def mind() -> AsyncGenerator[Part, None]:
        clock.now_s += 0.25
        yield Say("One.")

    thinking = Thinking(clock, heard_s=0.5)
    assert [part async for part in thinking.watch(mind())] == [Say("One.")]
    told = thinking.told()
    assert (told.vllm_ttft_ms, told.stage_gen_time_ms) == (750.0, 750.0)
