"""A stage seen from outside: when its pieces came, and what may be concluded from that."""

from __future__ import annotations

import pytest

from duplex_es.model import StageMetrics
from workers.models.stages import Pieces, read_stages, sounding

pytestmark = pytest.mark.unit


class Clock:
    """Seconds that pass where a test says so."""

    now_s = 5.0

    def __call__(self) -> float:
        return self.now_s


def came(*after_s: float) -> Pieces:
    """Pieces that came so long after each other, the first after it was asked for."""
    clock = Clock()
    pieces = Pieces(clock)
    for gap_s in after_s:
        clock.now_s += gap_s
        pieces.came()
    return pieces


@pytest.mark.parametrize("tokens", [3, 4])
def test_as_many_pieces_as_tokens_are_tokens(tokens: int) -> None:
    told = came(0.5, 0.25, 0.75).words(40, tokens, at_once=True)
    assert told == StageMetrics(
        num_tokens_in=40,
        num_tokens_out=tokens,
        stage_gen_time_ms=1500.0,
        vllm_ttft_ms=500.0,
        vllm_tpot_ms=1000.0 / (tokens - 1),
        vllm_itls_ms=(250.0, 750.0),
        inter_output_latencies_ms=(250.0, 750.0),
        output_unit_count=3,
        final_output_type="text",
    )


def test_pieces_of_several_tokens_are_no_tokens() -> None:
    told = came(0.5, 0.25, 0.75).words(40, 11, at_once=True)
    assert (told.vllm_itls_ms, told.inter_output_latencies_ms) == ((), (250.0, 750.0))
    assert told.vllm_tpot_ms == 100.0


def test_of_what_was_taken_late_only_the_first_piece_tells_something() -> None:
    told = came(0.5, 0.25).words(None, 2, at_once=False)
    assert told == StageMetrics(num_tokens_out=2, vllm_ttft_ms=500.0, output_unit_count=2, final_output_type="text")


def test_where_nobody_counts_there_are_no_tokens() -> None:
    told = came(0.5, 0.25).words(None, None, at_once=True)
    assert (told.num_tokens_in, told.num_tokens_out, told.vllm_tpot_ms, told.vllm_itls_ms) == (0, 0, 0, ())
    assert came().words(7, 0, at_once=True) == StageMetrics(num_tokens_in=7, final_output_type="text")


def test_speech_is_told_by_its_length_and_its_work() -> None:
    assert sounding(36_000, 24_000, pieces=3, work_s=0.5) == StageMetrics(
        stage_gen_time_ms=500.0,
        audio_generated_frames=36_000,
        audio_duration_s=1.5,
        output_unit_count=3,
        final_output_type="audio",
    )


def test_what_another_server_tells_is_read_by_its_names_and_the_rest_is_kept_beside() -> None:
    told = {
        0: {"num_tokens_out": 3, "vllm_itls_ms": [1, 2.5, None, True], "vllm_itl_ms": 1.75, "replica_id": 2},
        "1": {"final_output_type": "audio", "audio_duration_s": "long", "other": {"deep": 1}},
    }
    assert read_stages(told) == {
        "0": StageMetrics(num_tokens_out=3, vllm_itls_ms=(1, 2.5), other={"replica_id": 2}),
        "1": StageMetrics(final_output_type="audio"),
    }


@pytest.mark.parametrize("told", [None, "x", [], {}, {"0": 3}, {"0": {}}, {"0": {"num_tokens_in": True}}])
def test_what_is_no_figure_is_left_out(told: object) -> None:
    assert read_stages(told) == {}
