"""Speaking: what may be drawn, frames and their vectors, a batch as each alone."""

from __future__ import annotations

import pytest
import torch

from tests.support.tiny_qwen3omni import tiny
from workers.neural_qwen3omni import shapes
from workers.neural_qwen3omni.sampling import Sampling
from workers.neural_qwen3omni.talker import Talker

pytestmark = [pytest.mark.neural, pytest.mark.timeout(300)]

GREEDY = Sampling(0.0, 1, 1.0)


@pytest.fixture(scope="module")
def talker() -> Talker:
    return tiny()._talker


@torch.inference_mode()
def test_special_codes_are_never_likely_but_for_the_end(talker: Talker) -> None:
    talker.rows.cut(0)
    _, chances = talker.step([0], talker.first[None])
    possible = torch.isfinite(chances[0]).nonzero()[:, 0].tolist()
    assert possible == [*range(shapes.CODEC_VOCABULARY - 1024), shapes.CODEC_EOS]


@torch.inference_mode()
def test_a_step_of_many_is_a_step_of_each(talker: Talker) -> None:
    for slot in range(4):
        talker.rows.cut(slot)
    inputs = torch.randn(6, 48, generator=torch.Generator().manual_seed(1))
    talker.read(0, inputs[:4])
    talker.read(3, inputs[:1])
    hidden, chances = talker.step([0, 3], inputs[4:6])
    talker.read(1, inputs[:4])
    talker.read(2, inputs[:1])
    for row, slot in enumerate((1, 2)):
        alone, likely = talker.step([slot], inputs[4 + row : 5 + row])
        torch.testing.assert_close(alone[0], hidden[row])
        torch.testing.assert_close(likely[0], chances[row])


@torch.inference_mode()
def test_residuals_do_not_depend_on_which_frames_are_made_beside(talker: Talker) -> None:
    hidden = torch.randn(3, 48, generator=torch.Generator().manual_seed(2))
    first = torch.tensor([1, 2, 3])
    dice = torch.rand(3, shapes.GROUPS - 1, generator=torch.Generator().manual_seed(3))
    settings = [Sampling(1.0, 50, 0.8)] * 3
    together = talker.residuals(hidden, first, dice, settings)
    alone = [talker.residuals(hidden[r : r + 1], first[r : r + 1], dice[r : r + 1], settings[:1]) for r in range(3)]
    assert torch.equal(together, torch.cat(alone))
    assert together[:, 0].tolist() == [1, 2, 3]


@torch.inference_mode()
def test_every_code_of_a_frame_counts(talker: Talker) -> None:
    frames = torch.tensor([[1, 2, 3, 4], [1, 2, 3, 5], [2, 2, 3, 4]])
    vectors = talker.frame(frames)
    assert vectors.shape == (3, 48)
    assert not torch.allclose(vectors[0], vectors[1]) and not torch.allclose(vectors[0], vectors[2])


@torch.inference_mode()
def test_speech_opens_with_the_callers_part_and_eight_steps(talker: Talker) -> None:
    embeds, hidden = torch.randn(2, 5, 64, generator=torch.Generator().manual_seed(4))
    special = torch.randn(5, 64, generator=torch.Generator().manual_seed(5))
    silent = talker.opening(embeds, hidden, torch.zeros(5, dtype=torch.bool), special, shapes.SPEAKERS["ethan"])
    heard = talker.opening(embeds, hidden, torch.ones(5, dtype=torch.bool), special, shapes.SPEAKERS["aiden"])
    assert silent.shape == (5 + 8, 48)
    assert not torch.allclose(silent[:5], heard[:5]), "sound is projected otherwise than text"
    changed = (silent[5:] != heard[5:]).any(-1).tolist()
    assert changed == [False] * 6 + [True, False], "one step names the voice"
    assert talker.openers(95)[2] == 95
