"""One beat: what goes in for whom, and what comes out."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from workers.neural.mimi.codec import StreamingCodec
from workers.neural.mimi.noise import noisy_mimi
from workers.neural.moshi.shape import TINY
from workers.neural.moshi.stepper import Stepper
from workers.neural.moshi.transformers import MoshiModel
from workers.neural.personaplex.beat import Beat
from workers.neural.personaplex.opening import silence_of

pytestmark = [pytest.mark.neural, pytest.mark.timeout(300)]

MODEL = MoshiModel(TINY)
MODEL.fill_with_noise(1)
CODEC = noisy_mimi(small=True)
SOUND = np.random.default_rng(1).normal(0, 0.1, (6, 1, 1920)).astype(np.float32)


def beat(slots: int = 3) -> Beat:
    found = Beat(Stepper(MODEL, slots), StreamingCodec(CODEC, slots))
    found.record()
    return found


def test_rows_come_back_in_the_order_they_were_asked_for() -> None:
    one, other = beat(), beat()
    for each in (one, other):
        for slot in range(3):
            each.reset(slot, (slot, 1))
    frames = np.concatenate(SOUND[:2])
    found = one.play([2, 0], frames)
    mirrored = other.play([0, 2], frames[::-1])
    assert np.array_equal(found.pcm, mirrored.pcm[::-1]) and np.array_equal(found.records, mirrored.records[::-1])
    assert found.pcm.shape == (2, 1920) and found.records.shape == (2, 17)
    assert one.stepper.position.tolist() == [1, 0, 1]


def test_the_codes_that_are_remembered_are_those_that_were_heard() -> None:
    one = beat(1)
    codec = StreamingCodec(CODEC, 1)
    for frame in SOUND:
        heard = codec.encode(torch.from_numpy(frame), torch.ones(1) > 0)
        assert one.play([0], frame).records[0, 9:].tolist() == heard[0].tolist()


def test_codes_that_stand_for_nothing_are_silence() -> None:
    codes = torch.tensor([[TINY.code_card, 5, *[TINY.code_card] * 6]])
    silence = silence_of(TINY)
    assert beat(1).audible(codes).tolist() == [[silence[0], 5, *silence[2:]]]


def test_retraced_frames_lead_to_where_they_were_made() -> None:
    one = beat(2)
    for slot in (0, 1):
        one.reset(slot, (7, 7))
    records = np.concatenate([one.play([0], frame).records for frame in SOUND])
    one.retrace(1, torch.from_numpy(records).long())
    assert one.stepper.position.tolist() == [6, 6]
    # The codec is the engine's to bring back; given the same codes, both go on alike.
    one.stepper.run.fill_(True)
    one.stepper.user.fill_(3)
    one.stepper.step()
    assert torch.equal(one.stepper.record[0], one.stepper.record[1])


def test_a_stepper_and_a_codec_of_different_sizes_are_not_put_together() -> None:
    with pytest.raises(ValueError, match="not of one size"):
        Beat(Stepper(MODEL, 2), StreamingCodec(CODEC, 3))
