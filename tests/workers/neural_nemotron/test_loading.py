"""What is missing is said by name; random numbers are the same for the same seed; slots are as many as fit."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import pytest
import torch

from tests.support.published_nemotron import write_folder
from tests.support.tiny_nemotron import OPTIONS
from workers.neural_nemotron import loading
from workers.neural_nemotron.options import EngineOptions, read_engine_options
from workers.neural_nemotron.shapes import shape_of

pytestmark = [pytest.mark.neural, pytest.mark.timeout(300)]


def options(**more: str) -> EngineOptions:
    return read_engine_options({**OPTIONS, **more})


def test_packages_that_are_missing_or_too_old_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    loading.check_packages()
    with monkeypatch.context() as patch:
        patch.setattr(importlib.metadata, "version", lambda name: "5.17.1")
        with pytest.raises(loading.Missing, match=r"needs transformers 5\.24 or newer, not 5\.17\.1"):
            loading.check_packages()
    monkeypatch.setitem(loading.NEEDS, "nowhere", "no_such_module")
    with pytest.raises(loading.Missing, match="needs nowhere: pip install -r"):
        loading.check_packages()


def test_a_folder_that_is_none_is_said(tmp_path: Path) -> None:
    with pytest.raises(loading.Missing, match=r"option weights: .*nowhere is no folder"):
        loading.load(options(weights=str(tmp_path / "nowhere")))


def test_a_tokenizer_that_is_missing_is_said_with_where_it_is_published(tmp_path: Path) -> None:
    write_folder(loading.load(options()), tmp_path)
    with pytest.raises(loading.Missing, match=r"tokenizer\.json is missing: it is published with nvidia/NVIDIA-Nem"):
        loading.load(options(weights=str(tmp_path)))


def test_the_same_seed_gives_the_same_numbers_and_leaves_torchs_own_dice_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    weights = [loading.load(options(seed=seed)).language.lm_head.weight for seed in ("1", "1", "2")]
    assert torch.equal(torch.rand(1), expected)
    assert torch.equal(weights[0], weights[1]) and not torch.equal(weights[0], weights[2])


def test_every_number_of_noise_is_one() -> None:
    loaded = loading.load(options())
    for part in (loaded.encoder, loaded.projection, loaded.language, loaded.function_head):
        for name, numbers in part.named_parameters():
            assert torch.isfinite(numbers).all() and numbers.std() > 0, name
    assert all(
        layer.mixer.time_step_limit == (0.0, float("inf"))
        for layer in loaded.language.model.layers
        if layer.block_type == "linear_attention"
    )


def test_slots_are_as_many_as_fit() -> None:
    loaded = loading.load(options())
    assert loading.how_many(options(slots="3"), loaded) == 3
    assert loading.how_many(options(slots="auto"), loaded) == loading.SLOTS_WITHOUT_DEVICE
    shape = shape_of("11b")
    # The backbone's states and the conformer's windows, of which a step holds a second copy, and attention's columns.
    states = 27 * (4 * 10_240 * 128 + 2 * 4 * 12_288) + 2 * 2 * 24 * 1024 * 71
    each = 2 * states + 12_000 * 4 * 2 * 8 * 128 * 2
    assert loading.fitting(loading.RESERVE_BYTES + 6 * each, shape, 12_000, 2) == 5, "one row is nobody's"
    assert loading.fitting(1 << 40, shape, 12_000, 2) == loading.MOST_SLOTS
    with pytest.raises(loading.Missing, match=r"MiB are free, and a session takes \d+ MiB: shorten context_frames"):
        loading.fitting(loading.RESERVE_BYTES, shape, 12_000, 2)
