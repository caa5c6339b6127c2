"""A turn of three networks: what each is told to have done, by when its pieces came."""

from __future__ import annotations

import pytest

from duplex_es.model import StageMetrics
from workers.engine.turns import TurnPiece
from workers.models.turn_meter import TurnMeter

pytestmark = pytest.mark.unit


class Clock:
    """Seconds that pass where a test says so."""

    now_s = 5.0

    def __call__(self) -> float:
        return self.now_s


def metadata(rate_hz: int) -> dict[str, object]:
    return {"format": "pcm", "sample_rate_hz": rate_hz, "channels": 1}


def test_words_frames_and_sound_are_stages_of_their_own() -> None:
    clock = Clock()
    meter = TurnMeter(clock)
    last = TurnPiece(
        pcm=bytes(4_800),
        audio_metadata=metadata(24_000),
        ends="stop",
        input_tokens=40,
        output_tokens=3,
        drew=(0, 1),
    )
    pieces = [
        TurnPiece(drew=(1, 0)),
        TurnPiece(drew=(1, 1), memory=b"m"),
        TurnPiece(drew=(1, 2), pcm=bytes(9_600), audio_metadata=metadata(24_000)),
        last,
    ]
    for piece in pieces:
        clock.now_s += 0.25
        meter.heard(piece)
    assert meter.told(last) == {
        "0": StageMetrics(
            num_tokens_in=40,
            num_tokens_out=3,
            stage_gen_time_ms=750.0,
            vllm_ttft_ms=250.0,
            vllm_tpot_ms=250.0,
            vllm_itls_ms=(250.0, 250.0),
            inter_output_latencies_ms=(250.0, 250.0),
            output_unit_count=3,
            final_output_type="text",
        ),
        "1": StageMetrics(
            num_tokens_out=4,
            stage_gen_time_ms=1000.0,
            serving_time_to_first_output_ms=500.0,
            output_unit_count=4,
            output_unit_type="stream",
        ),
        "2": StageMetrics(
            stage_gen_time_ms=1000.0,
            audio_generated_frames=7_200,
            audio_duration_s=0.3,
            serving_time_to_first_output_ms=750.0,
            output_unit_count=2,
            final_output_type="audio",
        ),
    }


def test_a_written_turn_has_one_stage() -> None:
    meter = TurnMeter()
    last = TurnPiece(text="Hi.", ends="stop", input_tokens=4, output_tokens=1, drew=(1, 0))
    meter.heard(last)
    assert list(meter.told(last)) == ["0"]
