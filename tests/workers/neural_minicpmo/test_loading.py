"""What is missing is named, with what to do about it."""

from __future__ import annotations

from pathlib import Path

import pytest

from workers.neural_minicpmo import loading
from workers.neural_minicpmo.loading import Missing, check_packages, check_weights, duplex_of, how_many

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


def test_the_duplex_side_is_found_where_either_copy_of_the_code_keeps_it_and_gets_its_window() -> None:  # V47, V49
    asked: list[object] = []

    class Model:
        def as_duplex(self, device: str | None = None, **settings: object) -> object:
            asked.append(settings)
            return self

    class Unified:
        duplex: object = None

        def init_unified(self, device: str, duplex_config: dict[str, object]) -> None:
            asked.append((device, duplex_config))
            self.duplex = self

    model, unified = Model(), Unified()
    assert duplex_of(model, "cuda:1", "basic") is model
    assert duplex_of(unified, "cuda:1", "context") is unified
    assert asked == [{"sliding_window_mode": "basic"}, ("cuda:1", {"sliding_window_mode": "context"})]
    with pytest.raises(Missing, match="no duplex side"):
        duplex_of(object(), "cuda:1", "off")


def test_a_copy_of_the_code_without_a_window_says_that_long_calls_grow(capsys: pytest.CaptureFixture[str]) -> None:
    class Older:
        def as_duplex(self) -> object:
            return self

    older = Older()
    assert duplex_of(older, "cuda:0", "basic") is older
    assert "no window" in capsys.readouterr().out
