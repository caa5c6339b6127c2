"""What the suite says of a model that measures itself: figures inside an answer, of stages by number, that can be."""

from __future__ import annotations

import pytest

from duplex_es.model import ModelFinished, ModelMeasured, ModelSpoke, Signal, StageMetrics
from duplex_es.testing.model_suite import check_order

pytestmark = pytest.mark.unit

SPOKE, FINISHED = ModelSpoke(epoch=0, turn=0), ModelFinished(epoch=0, turn=0)
WORDS = StageMetrics(num_tokens_out=3, vllm_itls_ms=(1.5, 0.0), other={"voice": "tone"})


def measured(told: StageMetrics = WORDS, *, stage: str = "0", turn: int = 0) -> ModelMeasured:
    return ModelMeasured(epoch=0, turn=turn, stages={stage: told})


def test_figures_may_come_as_often_as_there_is_something_new() -> None:
    check_order([SPOKE, measured(), measured(stage="1"), FINISHED])


@pytest.mark.parametrize(
    ("signals", "complaint"),
    [
        ([measured(), SPOKE, FINISHED], "inside turn None"),
        ([SPOKE, FINISHED, measured()], "inside turn None"),
        ([SPOKE, measured(turn=1), FINISHED], "figures of turn 1 inside turn 0"),
        ([SPOKE, ModelMeasured(epoch=0, turn=0, stages={}), FINISHED], "no stage"),
        ([SPOKE, measured(stage="thinker"), FINISHED], "by its number, not 'thinker'"),
        ([SPOKE, measured(StageMetrics()), FINISHED], "stage 0 tells nothing"),
        ([SPOKE, measured(StageMetrics(vllm_ttft_ms=-1.0)), FINISHED], "vllm_ttft_ms -1.0"),
        ([SPOKE, measured(StageMetrics(vllm_tpot_ms=float("nan"))), FINISHED], "vllm_tpot_ms nan"),
        ([SPOKE, measured(StageMetrics(vllm_itls_ms=(1.0, float("inf")))), FINISHED], "vllm_itls_ms inf"),
    ],
)
def test_figures_that_cannot_be_fail_by_name(signals: list[Signal], complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint):
        check_order(signals)
