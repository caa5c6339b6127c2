"""Files of the published layout are read whole; what is missing, of another size, or computed otherwise is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.support.published_nemotron import write_config, write_folder, write_language
from tests.support.tiny_nemotron import OPTIONS, Table, sound
from workers.neural_nemotron import loading, published
from workers.neural_nemotron.engine import make
from workers.neural_nemotron.options import read_engine_options

pytestmark = [pytest.mark.neural, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def noise() -> loading.Loaded:
    return loading.load(read_engine_options({**OPTIONS, "seed": "7"}))


def read(folder: Path, **more: str) -> loading.Loaded:
    options = {**OPTIONS, "weights": str(folder), "language": str(folder / "language"), **more}
    return loading.load(read_engine_options(options))


@pytest.mark.parametrize("files", [1, 3])
def test_what_was_written_is_read(noise: loading.Loaded, tmp_path: Path, files: int) -> None:
    write_folder(noise, tmp_path, files=files)
    found = read(tmp_path)
    for part in ("encoder", "projection", "language", "function_head"):
        expected = dict(getattr(noise, part).named_parameters())
        for name, numbers in getattr(found, part).named_parameters():
            assert torch.equal(numbers, expected[name]), name
    assert (found.shape.text_weight, found.shape.audio_weight, found.shape.function_weight) == (1.0, 1.0, 2.0)


def test_an_engine_says_from_them_what_it_says_from_the_same_numbers(noise: loading.Loaded, tmp_path: Path) -> None:
    write_folder(noise, tmp_path)
    engine = make({**OPTIONS, "weights": str(tmp_path), "language": str(tmp_path / "language")})
    engine.load()
    expected = make({**OPTIONS, "seed": "7"})
    expected.load()
    assert engine.facts.name == "nvidia/NVIDIA-NemotronLabs-VoiceChat-11B"
    # Without a prompt: the two tokenizers number bytes differently.
    ids = [Table(one).whole(sound(20), prompt="").memory for one in (engine, expected)]
    assert ids[0] == ids[1]


def test_numbers_of_32_bits_are_read_into_16_but_for_those_that_must_not_be(
    noise: loading.Loaded, tmp_path: Path
) -> None:
    write_folder(noise, tmp_path)
    found = read(tmp_path, dtype="bf16")
    mixer, expected = found.language.model.layers[0].mixer, noise.language.model.layers[0].mixer
    assert mixer.in_proj.weight.dtype == found.encoder.subsampling.linear.weight.dtype == torch.bfloat16
    assert torch.equal(mixer.in_proj.weight, expected.in_proj.weight.to(torch.bfloat16))
    for name in ("A_log", "dt_bias", "D"):
        assert torch.equal(getattr(mixer, name), getattr(expected, name))
    assert found.encoder.encode_positions.inv_freq.dtype == torch.float32


def test_an_engine_runs_in_16_bits(noise: loading.Loaded, tmp_path: Path) -> None:
    write_folder(noise, tmp_path)
    engine = make({**OPTIONS, "weights": str(tmp_path), "language": str(tmp_path / "language"), "dtype": "bf16"})
    engine.load()
    assert len(Table(engine).whole(sound(20)).text) > 3


@pytest.mark.parametrize("files", [1, 2])
@pytest.mark.parametrize(
    "name",
    [
        "stt_model.embed_tokens.weight",
        "stt_model.function_head.weight",
        "stt_model.perception.encoder.layers.1.self_attn.pos_bias_u",
        "stt_model.llm.layers.2.mixer.A_log",
    ],
)
def test_a_tensor_that_is_missing_is_named(noise: loading.Loaded, tmp_path: Path, name: str, files: int) -> None:
    write_folder(noise, tmp_path, files=files, without=name)
    with pytest.raises(published.Unfit) as error:
        read(tmp_path)
    assert f"holds no {name}, and 0 others are missing" in str(error.value) and str(tmp_path) in str(error.value)


def test_a_tensor_of_another_size_is_named_with_its_file(noise: loading.Loaded, tmp_path: Path) -> None:
    name = "stt_model.llm.layers.0.mixer.in_proj.weight"
    write_folder(noise, tmp_path, files=1, **{name: torch.zeros(3, 5)})
    with pytest.raises(published.Unfit) as error:
        read(tmp_path)
    assert f"model.safetensors: {name} is (3, 5); this model needs (328, 64)" in str(error.value)


def test_a_tensor_that_would_be_left_out_is_named(noise: loading.Loaded, tmp_path: Path) -> None:
    name = "stt_model.perception.modality_adapter.layers.0.weight"
    write_folder(noise, tmp_path, files=1, **{name: torch.zeros(3)})
    with pytest.raises(published.Unfit, match="which this engine would leave out"):
        read(tmp_path)


@pytest.mark.parametrize("name", ["config.json", "model-00002-of-00002.safetensors"])
def test_a_file_that_is_missing_is_named(noise: loading.Loaded, tmp_path: Path, name: str) -> None:
    write_folder(noise, tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(published.Unfit, match=f"{name} is missing: put all files of nvidia/"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"perception": None}, "model.stt.model.perception is missing: it is not a file of nvidia/"),
        ({"fuse_method": "gate"}, "model.stt.model.fuse_method is 'gate'; this engine computes 'add' only"),
        ({"predict_user_text": True}, "predict_user_text is True; this engine computes False only"),
        ({"perception__encoder__conv_norm_type": "batch_norm"}, "is 'batch_norm'; this engine computes 'layer_norm'"),
        ({"perception__encoder__att_context_size": [70, 1]}, "att_context_size is [70, 1]; this engine computes [past"),
        ({"perception__preprocessor__normalize": "per_feature"}, "normalize is 'per_feature'"),
        ({"perception__encoder__conv_context_size": [2, 2]}, "conv_context_size is [2, 2]; this engine computes"),
        ({"perception__encoder__d_model": None}, "model.stt.model.perception lacks d_model"),
    ],
)
def test_what_is_computed_otherwise_is_named(
    noise: loading.Loaded, tmp_path: Path, changed: dict[str, Any], message: str
) -> None:
    write_config(noise, tmp_path, **changed)
    with pytest.raises(published.Unfit) as error:
        published.read_shape(tmp_path, tmp_path)
    assert message in str(error.value) and str(tmp_path / "config.json") in str(error.value)


def test_several_windows_of_attention_are_the_first_of_them(noise: loading.Loaded, tmp_path: Path) -> None:
    write_config(noise, tmp_path, perception__encoder__att_context_size=[[8, 0], [70, 13]])
    assert published.read_shape(tmp_path, tmp_path).encoder.sliding_window == 9


def test_without_a_backbones_configuration_it_is_the_published_one(noise: loading.Loaded, tmp_path: Path) -> None:
    write_config(noise, tmp_path, duplex_function_channel_weight=3.0)
    shape = published.read_shape(tmp_path, tmp_path / "nowhere")
    assert shape.language.hidden_size == 4480 and shape.function_weight == 3.0


def test_a_configuration_that_is_none_is_named(noise: loading.Loaded, tmp_path: Path) -> None:
    write_config(noise, tmp_path)
    write_language(noise, tmp_path / "language")
    path = tmp_path / "language" / "config.json"
    sizes = json.loads(path.read_text())
    del sizes["mamba_num_heads"]
    path.write_text(json.dumps(sizes))
    with pytest.raises(published.Unfit, match="lacks mamba_num_heads"):
        published.read_shape(tmp_path, tmp_path / "language")
    path.write_text("{")
    with pytest.raises(published.Unfit, match="is no JSON"):
        published.read_shape(tmp_path, tmp_path / "language")
    (tmp_path / published.INDEX_FILE).write_text("{}")
    with pytest.raises(published.Unfit, match="has no weight_map"):
        published.check_files(tmp_path)


def test_a_tokenizer_larger_than_the_model_is_refused(noise: loading.Loaded, tmp_path: Path) -> None:
    write_folder(noise, tmp_path)
    path = tmp_path / "language" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "vocab_size": 100}))
    with pytest.raises(loading.Missing, match="has 288 tokens, the model 100"):
        read(tmp_path)


def test_every_name_of_the_encoder_is_one_of_its_own(noise: loading.Loaded) -> None:
    names = [name for name, _ in published.places(noise)]
    assert len(names) == len(set(names)) > 50
