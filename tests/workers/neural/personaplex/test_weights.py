"""Reading the published layout, and saying what is missing."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.support.published_personaplex import write_codec, write_model, write_text_pieces
from workers.neural.mimi.noise import SMALL, empty_mimi, noisy_mimi
from workers.neural.moshi.shape import TINY
from workers.neural.moshi.transformers import MoshiModel
from workers.neural.personaplex.weights import (
    CODEC_FILE,
    MODEL_FILE,
    TEXT_FILE,
    NumberedPieces,
    TextPieces,
    WeightsMissing,
    check_folder,
    load_codec,
    load_moshi,
)

pytestmark = [pytest.mark.neural, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def model() -> MoshiModel:
    found = MoshiModel(TINY)
    found.fill_with_noise(5)
    return found


@pytest.mark.parametrize("steps", [8, 16])
def test_every_weight_is_found_and_steps_that_are_not_run_are_left_out(
    model: MoshiModel, tmp_path: Path, steps: int
) -> None:
    write_model(model, tmp_path / MODEL_FILE, steps=steps)
    loaded = MoshiModel(TINY)
    for weight in loaded.parameters():
        weight.fill_(float("nan"))
    load_moshi(loaded, tmp_path / MODEL_FILE)
    for (name, found), (_, true) in zip(loaded.named_parameters(), model.named_parameters(), strict=True):
        assert torch.equal(found, true), name


def test_a_tensor_that_is_missing_or_of_another_size_is_named(model: MoshiModel, tmp_path: Path) -> None:
    path = tmp_path / MODEL_FILE
    write_model(model, path, without="depformer_in.3.weight")
    with pytest.raises(WeightsMissing, match=r"depformer_in\.3\.weight"):
        load_moshi(MoshiModel(TINY), path)
    write_model(model, path)
    from dataclasses import replace

    with pytest.raises(WeightsMissing, match=r"text_emb\.weight is \(101, 64\)"):
        load_moshi(MoshiModel(replace(TINY, text_card=50)), path)


def test_the_codec_that_was_loaded_makes_the_codes_and_the_wave_of_the_one_that_was_written(tmp_path: Path) -> None:
    true = noisy_mimi(small=True, seed=8)
    write_codec(true, tmp_path / CODEC_FILE)
    found = empty_mimi(**SMALL)
    sound = torch.randn(1, 1, 1920 * 6, generator=torch.Generator().manual_seed(2)) * 0.1
    with torch.no_grad():
        # Used before it is loaded: what it kept of its empty codebooks must not survive.
        found.encode(sound, num_quantizers=8)
        load_codec(found, tmp_path / CODEC_FILE)
        codes = true.encode(sound, num_quantizers=8).audio_codes
        assert torch.equal(found.encode(sound, num_quantizers=8).audio_codes, codes)
        assert torch.allclose(found.decode(codes).audio_values, true.decode(codes).audio_values, atol=1e-5)


def test_a_codec_without_one_of_its_tensors_is_refused_by_name(tmp_path: Path) -> None:
    write_codec(noisy_mimi(small=True), tmp_path / CODEC_FILE, without="downsample.conv.conv.conv.weight")
    with pytest.raises(WeightsMissing, match="downsample"):
        load_codec(empty_mimi(**SMALL), tmp_path / CODEC_FILE)


def test_a_folder_says_which_file_is_missing_and_what_to_do(tmp_path: Path) -> None:
    for name in (MODEL_FILE, CODEC_FILE, TEXT_FILE):
        with pytest.raises(WeightsMissing, match=f"{name} is missing: accept the licence"):
            check_folder(tmp_path)
        (tmp_path / name).touch()
    with pytest.raises(WeightsMissing, match=r"holds no voice .*download voices\.tgz"):
        check_folder(tmp_path)
    (tmp_path / "voices.tgz").touch()
    with pytest.raises(WeightsMissing, match=r"tar -xzf voices\.tgz"):
        check_folder(tmp_path)
    (tmp_path / "voices").mkdir()
    (tmp_path / "voices" / "NATF2.pt").touch()
    check_folder(tmp_path)


def test_text_pieces_give_words_with_their_spaces(tmp_path: Path) -> None:
    write_text_pieces(tmp_path / TEXT_FILE, TINY.text_card)
    pieces = TextPieces(tmp_path / TEXT_FILE)
    ids = pieces.ids("hello there")
    assert ids and max(ids) < TINY.text_card
    assert "".join(map(pieces.text, ids)) == " hello there"
    assert pieces.text(1) == pieces.text(2) == ""


def test_without_pieces_words_are_some_ids() -> None:
    pieces = NumberedPieces(100)
    assert len(pieces.ids("one two two")) == 3
    assert all(4 <= number < 100 for number in pieces.ids("one two three"))
    assert pieces.text(7) == " 7"
