"""Frames, their time and their sound, by the answer they belong to."""

from __future__ import annotations

import pytest

from duplex_es.model import (
    ModelFinished,
    ModelListened,
    ModelMeasured,
    ModelProducedAudio,
    ModelSpoke,
    Signal,
    StageMetrics,
)
from workers.models.stepping.meter import TOLD_EVERY_FRAMES, StepMeter

pytestmark = pytest.mark.unit


class Desk:
    """A meter, what came out of it, and a model that speaks or is silent for some frames."""

    def __init__(self) -> None:
        self.told: list[Signal] = []
        self.meter = StepMeter(self.told.append, 1_000)
        self.open: tuple[int, int] | None = None

    def frame(self, *signals: Signal) -> None:
        self.meter.stepped(2.5, self.open)
        for signal in signals:
            self.meter(signal)

    def begin(self, turn: int, epoch: int = 0) -> None:
        self.frame(ModelSpoke(epoch=epoch, turn=turn), sound(turn, epoch))
        self.open = (epoch, turn)

    def figures(self) -> list[tuple[int, StageMetrics]]:
        return [(one.turn, one.stages["0"]) for one in self.told if isinstance(one, ModelMeasured)]


def sound(turn: int = 0, epoch: int = 0) -> ModelProducedAudio:
    return ModelProducedAudio(epoch=epoch, turn=turn, pcm=bytes(160))


def test_an_answer_is_told_of_right_before_its_end() -> None:
    desk = Desk()
    for _ in range(9):
        desk.frame(ModelListened(epoch=0))  # of which nothing belongs to the answer
    desk.begin(0)
    desk.frame(sound())
    desk.frame(ModelFinished(epoch=0, turn=0))
    told = StageMetrics(
        stage_gen_time_ms=7.5,
        audio_generated_frames=160,
        audio_duration_s=0.16,
        output_unit_count=3,
        final_output_type="audio",
    )
    assert desk.told[-2:] == [
        ModelMeasured(epoch=0, turn=0, stages={"0": told}),
        ModelFinished(epoch=0, turn=0),
    ]


def test_a_long_answer_is_told_of_on_the_way_and_nothing_twice() -> None:
    desk = Desk()
    desk.begin(0)
    for _ in range(2 * TOLD_EVERY_FRAMES):
        desk.frame(sound())
    assert [told.output_unit_count for _, told in desk.figures()] == [TOLD_EVERY_FRAMES] * 2
    desk.frame(ModelFinished(epoch=0, turn=0))
    assert sum(told.output_unit_count for _, told in desk.figures()) == 2 * TOLD_EVERY_FRAMES + 2
    assert sum(told.audio_generated_frames for _, told in desk.figures()) == 80 * (2 * TOLD_EVERY_FRAMES + 1)


def test_of_an_answer_that_was_cut_nothing_is_left_for_the_next() -> None:
    desk = Desk()
    desk.begin(0)
    for _ in range(TOLD_EVERY_FRAMES - 1):
        desk.frame(sound())
    desk.open = None
    desk.begin(1, epoch=1)
    desk.frame(ModelFinished(epoch=1, turn=1))
    assert [(turn, told.output_unit_count) for turn, told in desk.figures()] == [(1, 2)]


def test_an_answer_that_goes_on_from_another_process_is_counted_from_there() -> None:
    desk = Desk()
    desk.open = (0, 4)
    desk.frame(sound(4))
    desk.frame(ModelFinished(epoch=0, turn=4))
    assert [(turn, told.output_unit_count) for turn, told in desk.figures()] == [(4, 2)]
