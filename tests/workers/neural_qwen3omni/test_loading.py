"""What is missing is said by name; random numbers are the same for the same seed; slots are as many as fit."""

from __future__ import annotations

import importlib.metadata
import json
from pathlib import Path

import pytest
import torch

from tests.support.tiny_qwen3omni import OPTIONS, Table, question, sound
from workers.neural_qwen3omni import loading
from workers.neural_qwen3omni.engine import make
from workers.neural_qwen3omni.shapes import tiny_config

pytestmark = [pytest.mark.neural, pytest.mark.timeout(300)]


def published(folder: Path) -> Path:
    for name in (*loading.FILES, "vocab.json", "merges.txt"):
        (folder / name).write_text("{}")
    parts = {"thinker.a": "model-00001-of-00002.safetensors", "talker.b": "model-00002-of-00002.safetensors"}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": parts}))
    for name in parts.values():
        (folder / name).write_text("")
    return folder


def test_a_folder_with_all_files_is_fit(tmp_path: Path) -> None:
    loading.check_weights(published(tmp_path))
    (tmp_path / "vocab.json").unlink()
    (tmp_path / "tokenizer.json").write_text("{}")
    loading.check_weights(tmp_path)


@pytest.mark.parametrize(
    "name", ["config.json", "preprocessor_config.json", "model-00002-of-00002.safetensors", "merges.txt"]
)
def test_a_file_that_is_missing_is_named(tmp_path: Path, name: str) -> None:
    (published(tmp_path) / name).unlink()
    with pytest.raises(loading.Missing, match=f"lacks {name};"):
        loading.check_weights(tmp_path)


def test_a_folder_that_is_none_is_said(tmp_path: Path) -> None:
    with pytest.raises(loading.Missing, match="is no folder"):
        loading.load_published(tmp_path / "nowhere", "cpu")


def test_packages_that_are_missing_or_too_old_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    loading.check_packages()
    with monkeypatch.context() as patch:
        patch.setattr(importlib.metadata, "version", lambda name: "5.17.1")
        with pytest.raises(loading.Missing, match=r"needs transformers 5\.24 or newer, not 5\.17\.1"):
            loading.check_packages()
    monkeypatch.setitem(loading.NEEDS, "nowhere", "no_such_module")
    with pytest.raises(loading.Missing, match="needs nowhere"):
        loading.check_packages()


def test_the_same_seed_gives_the_same_numbers_and_leaves_torchs_own_dice_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    weights = [loading.load_random("cpu", seed).model.thinker.lm_head.weight for seed in (1, 1, 2)]
    assert torch.equal(torch.rand(1), expected)
    assert torch.equal(weights[0], weights[1]) and not torch.equal(weights[0], weights[2])


def test_slots_are_as_many_as_fit() -> None:
    config = tiny_config()
    assert loading.how_many("3", config, context=512, frames=40, device="cuda") == 3
    assert loading.how_many("auto", config, context=512, frames=40, device="cpu") == loading.FAKE_SLOTS
    # Thinker: 3 layers of 2 heads of 16, talker: 2 layers of them, keys and values, two bytes each.
    each = 2 * 2 * (3 * 32 * 512 + 2 * 32 * 552)
    free = loading.RESERVE_BYTES + 5 * each + 1
    assert loading.fitting(free, config, context=512, frames=40) == 5
    with pytest.raises(loading.Missing, match="make context smaller"):
        loading.fitting(loading.RESERVE_BYTES, config, context=512, frames=40)


def saved(folder: Path) -> loading.Loaded:
    """A tiny model in files of the published names, in several parts, with a tokenizer that has its markers."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    loaded = loading.load_random("cpu", 3)
    loaded.model.save_pretrained(folder, max_shard_size="1MB")
    loaded.extractor.save_pretrained(folder)
    markers = ["<tool_call>", "</tool_call>", "<|im_end|>", "<|endoftext|>"]
    letters = {chr(32 + place): place for place in range(95)} | {"\n": 95}
    tokenizer = Tokenizer(models.WordLevel(letters | {"[UNK]": 96}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, additional_special_tokens=markers)
    fast.save_pretrained(folder)
    return loaded


def test_files_of_the_published_names_are_loaded_whole(tmp_path: Path) -> None:
    before = saved(tmp_path)
    assert len(list(tmp_path.glob("model-*-of-*.safetensors"))) > 1
    after = loading.load_published(tmp_path, "cpu")
    numbers = dict(after.model.named_parameters())
    for name, expected in before.model.named_parameters():
        assert torch.equal(numbers[name], expected.to(torch.bfloat16)), name
    assert after.extractor.feature_size == 128
    assert len({after.vocabulary.tool_open, after.vocabulary.tool_close, *after.vocabulary.stops}) == 4


def test_an_engine_answers_from_them_in_16_bit_numbers(tmp_path: Path) -> None:
    saved(tmp_path)
    engine = make({**OPTIONS, "weights": str(tmp_path)})
    engine.load()
    assert engine._thinker.rows._keys[0].dtype == torch.bfloat16
    answer = Table(engine).whole(question("hello", heard=0), [sound()])
    assert answer.is_over and answer.text and len(answer.pcm) > 1920
