"""Hearing and reading: in pieces as at once, in a batch as alone."""

from __future__ import annotations

import pytest
import torch

from tests.support.tiny_qwen3omni import sound, tiny
from workers.neural_qwen3omni.prompt import vectors_of
from workers.neural_qwen3omni.thinker import Thinker

pytestmark = [pytest.mark.neural, pytest.mark.timeout(300)]

IDS = [5, 9, 30, 41, 7, 7, 60]


@pytest.fixture(scope="module")
def thinker() -> Thinker:
    return tiny()._thinker


@pytest.mark.parametrize("duration_s", [0.0, 0.05, 1.0, 1.013, 2.5])
def test_a_sound_is_as_many_vectors_as_the_prompt_has_places_for(thinker: Thinker, duration_s: float) -> None:
    heard = sound(duration_s)
    assert thinker.heard(heard).shape == (vectors_of(len(heard) // 2), 64)


@torch.inference_mode()
def test_a_prompt_read_in_pieces_is_the_prompt_read_at_once(thinker: Thinker) -> None:
    embeds = thinker.embedded(IDS)
    for slot in (0, 1):
        thinker.rows.cut(slot)
    whole, hidden = thinker.read(0, embeds)
    thinker.read(1, embeds[:3])
    last, rest = thinker.read(1, embeds[3:])
    torch.testing.assert_close(last, whole)
    torch.testing.assert_close(rest, hidden[3:])


@torch.inference_mode()
def test_a_step_of_many_is_a_step_of_each(thinker: Thinker) -> None:
    for slot in range(4):
        thinker.rows.cut(slot)
    thinker.read(0, thinker.embedded(IDS))
    thinker.read(3, thinker.embedded(IDS[:2]))
    found = thinker.step([0, 3], [8, 9])
    alone, _ = thinker.read(1, thinker.embedded([*IDS, 8]))
    other, _ = thinker.read(2, thinker.embedded([*IDS[:2], 9]))
    torch.testing.assert_close(found, torch.stack((alone, other)))
