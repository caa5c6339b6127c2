"""What is missing is named, with what to do about it."""

from __future__ import annotations

from pathlib import Path

import pytest

from workers.neural_minicpmo import loading
from workers.neural_minicpmo.loading import Missing, check_packages, check_weights, how_many

pytestmark = pytest.mark.unit


def test_packages_that_are_not_there_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "PACKAGES", ("json", "no_such_package"))
    with pytest.raises(Missing, match=r"lacks no_such_package; install deploy/models/minicpmo/requirements\.txt"):
        check_packages()


def test_packages_that_are_there_are_fine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "PACKAGES", ("json",))
    check_packages()


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(Missing, match="no folder"):
        check_weights(tmp_path / "nowhere")


def test_files_that_are_not_there_are_named(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(Missing, match=r"modeling_minicpmo\.py, tokenizer_config\.json, \*\.safetensors"):
        check_weights(tmp_path)


def test_a_whole_folder_is_fine(tmp_path: Path) -> None:
    for name in (*loading.FILES, "model.safetensors"):
        (tmp_path / name).touch()
    check_weights(tmp_path)


def test_the_number_of_objects_is_as_told() -> None:
    assert (how_many("3", "cuda"), how_many("auto", "cpu")) == (3, 1)
