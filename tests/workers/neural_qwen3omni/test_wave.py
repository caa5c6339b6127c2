"""Sound in stretches of any length is the sound of all codes at once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from workers.neural_qwen3omni import loading, shapes
from workers.neural_qwen3omni.rows import CacheIgnored
from workers.neural_qwen3omni.wave import Heard, Sounder

pytestmark = [pytest.mark.neural, pytest.mark.timeout(300)]

FRAMES = 40
TOLERANCE = 2e-4
"""Random layers make much of a little: a rounding error of one comes out larger from the last."""


@pytest.fixture(scope="module")
def sounder() -> Sounder:
    return Sounder(loading.load_random("cpu", 0).model.code2wav)


@pytest.fixture(scope="module")
def codes() -> torch.Tensor:
    return torch.randint(0, shapes.CODES, (shapes.GROUPS, FRAMES), generator=torch.Generator().manual_seed(3))


def streamed(sounder: Sounder, codes: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    heard, parts, at = Heard(), [], 0
    for size in sizes:
        sound, heard = sounder.heard(heard, codes[:, at : at + size])
        parts.append(sound)
        at += size
    assert heard.frames == codes.shape[1]
    return torch.cat(parts)


@pytest.mark.parametrize("sizes", [[1] * FRAMES, [4, 8, 8, 8, 12], [FRAMES], [2, 1, 37]], ids=str)
def test_streamed_sound_is_offline_sound(sounder: Sounder, codes: torch.Tensor, sizes: list[int]) -> None:
    whole = sounder.whole(codes)
    assert float(whole.std()) > 0.001, "silence would prove nothing"
    found = streamed(sounder, codes, sizes)
    assert found.shape == whole.shape
    torch.testing.assert_close(found, whole, atol=TOLERANCE, rtol=0)


def test_what_came_before_matters(sounder: Sounder, codes: torch.Tensor) -> None:
    """Else the test above could not fail."""
    whole = sounder.whole(codes)
    for frames in (4, 8):
        # Convolutions look back three frames, attention ten.
        without, _ = sounder.heard(Heard(), codes[:, -frames:])
        assert (without[-1920:] - whole[-1920:]).abs().max() > 10 * TOLERANCE, frames


def test_all_sound_but_what_depends_on_the_next_frame_comes_at_once(sounder: Sounder, codes: torch.Tensor) -> None:
    sound, heard = sounder.heard(Heard(), codes[:, :4])
    assert 0 < 4 * sounder.frame_samples - len(sound) < sounder.frame_samples
    again, _ = sounder.heard(heard, codes[:, 4:6])
    assert len(again) == 2 * sounder.frame_samples


def test_what_is_kept_is_never_changed(sounder: Sounder, codes: torch.Tensor) -> None:
    _, heard = sounder.heard(Heard(), codes[:, :10])
    first, _ = sounder.heard(heard, codes[:, 10:])
    second, _ = sounder.heard(heard, codes[:, 10:])
    assert torch.equal(first, second)


def test_attention_keeps_no_more_than_its_window(sounder: Sounder, codes: torch.Tensor) -> None:
    _, heard = sounder.heard(Heard(), codes)
    assert {keys.shape[2] for keys, _ in heard.attention} == {5}


def test_a_model_that_ignores_its_memory_is_found_out(codes: torch.Tensor) -> None:
    sounder = Sounder(loading.load_random("cpu", 0).model.code2wav)
    model: Any = sounder._model.pre_transformer

    def forgetful(**more: Any) -> Any:
        return SimpleNamespace(last_hidden_state=more["inputs_embeds"])

    model.forward = forgetful
    with pytest.raises(CacheIgnored):
        sounder.heard(Heard(), codes)
