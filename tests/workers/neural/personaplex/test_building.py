"""Putting the parts together."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from tests.support.held import holder
from workers.neural.keeping import Keeping
from workers.neural.moshi.shape import TINY
from workers.neural.personaplex.building import build, bytes_per_slot, stepper_class
from workers.neural.personaplex.options import EngineOptions
from workers.neural.personaplex.windows import SPARE_FRAMES

pytestmark = [pytest.mark.neural, pytest.mark.timeout(300)]


def test_a_slot_takes_what_its_window_and_its_codec_take() -> None:
    options = EngineOptions(weights="random", shape="tiny", slots="2", threads=1)
    beat = build(options).beat
    rings = sum(ring.bytes_per_slot for ring in beat.stepper.rings)
    assert bytes_per_slot(TINY, torch.float32, beat.codec.bytes_per_slot) == rings + beat.codec.bytes_per_slot


def test_a_window_that_is_kept_takes_its_spare_columns_and_lies_in_memory_that_is_held() -> None:
    options = EngineOptions(weights="random", shape="tiny", slots="2", threads=1, keep="windows", kv="int8")
    with holder() as lines:
        line = lines()
        parts = build(options, Keeping(line, torch.device("cpu")))
        ring = parts.beat.stepper.rings[1]
        assert bytes_per_slot(TINY, torch.int8, 0, SPARE_FRAMES) == TINY.layers * ring.bytes_per_slot
        ring.keys[1, 0, 3] = 5
        kept = line.find("1.rows")
        assert kept is not None and kept.view[:].count(5) == TINY.head_size
        for name in ("moshi", "codec", "windows"):
            block = line.find(name)
            assert block is not None and block.mark is not None
        again = build(options, Keeping(lines(), torch.device("cpu")))
        assert torch.equal(again.beat.stepper.rings[1].keys, ring.keys)
        assert again.windows is not None and again.beat.stepper.slots == 2


def test_without_a_gpu_the_plain_path_is_taken() -> None:
    assert stepper_class("auto", torch.device("cpu")).__name__ == "Stepper"
    pytest.importorskip("triton")
    assert stepper_class("fused", torch.device("cpu")).__name__ == "FusedStepper"
    assert stepper_class("auto", torch.device("cuda")).__name__ == "FusedStepper"


def test_the_same_options_give_the_same_noise() -> None:
    """An engine that is started again must be the one that was lost, the codec included."""
    options = EngineOptions(weights="random", shape="tiny", slots="1", seed=3, threads=1)
    one, other = (build(options).beat for _ in range(2))
    for mine, theirs in ((one.stepper.model, other.stepper.model), (one.codec.model, other.codec.model)):
        for (name, weight), (_, same) in zip(mine.named_parameters(), theirs.named_parameters(), strict=True):
            assert torch.equal(weight, same), name
    changed = build(EngineOptions(weights="random", shape="tiny", slots="1", seed=4, threads=1)).beat
    assert not torch.equal(one.stepper.model.head, changed.stepper.model.head)


def test_the_options_reach_the_parts() -> None:
    options = EngineOptions(
        weights="random", shape="tiny", slots="1", window_frames=9, kv="int8", dtype="bf16", greedy=True, threads=1
    )
    parts = build(options)
    stepper = parts.beat.stepper
    assert (parts.shape.window, stepper.dtype, stepper.sampling.greedy) == (9, torch.bfloat16, True)
    assert stepper.rings[0].scales is not None and parts.voices is None


def test_a_codec_in_short_numbers_makes_nearly_the_same_sound_of_less_memory() -> None:
    options = EngineOptions(weights="random", shape="tiny", slots="1", threads=1)
    full, short = build(options).beat.codec, build(replace(options, codec="bf16")).beat.codec
    assert short.bytes_per_slot < 0.6 * full.bytes_per_slot
    codes = torch.arange(8 * 20).reshape(20, 8) % 60
    wave, other = full.decode_piece(0, codes), short.decode_piece(0, codes).float()
    assert float((wave - other).norm() / wave.norm()) < 0.05
    agree = (full.encode_piece(0, wave) == short.encode_piece(0, wave)).float().mean()
    assert float(agree) > 0.5
