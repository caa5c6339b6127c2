"""The opening against a plain re-enactment of how the model is driven, call by call."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

from workers.neural.moshi.shape import TINY
from workers.neural.moshi.stepper import FREE
from workers.neural.personaplex.opening import (
    PAD_TEXT,
    SILENT_FRAMES,
    TONE,
    persona_text,
    plan_opening,
    silence_of,
)
from workers.neural.personaplex.voices import Voice

pytestmark = pytest.mark.neural

DELAYS = (0, *TINY.delays, *TINY.delays)
NOTHING = (TINY.text_card, *[TINY.code_card] * 16)
SILENCE = silence_of(TINY)
TONE_HERE = tuple(code % TINY.code_card for code in TONE)
Cell = tuple[int, int]


class Driven:
    """A board of ids, stream by position: what is given goes in at its delay, and a call looks at the one before.

    The first call of all only begins; ``inputs`` are the model's, one for each call after it.
    """

    def __init__(self) -> None:
        self.board: dict[Cell, int] = {(k, 0): NOTHING[k] for k in range(17)}
        self.board |= {(k, 1): NOTHING[k] for k in range(17) if DELAYS[k]}
        self.call_number = 1
        self.inputs: list[list[int]] = []

    def call(self, text: int, own: Sequence[int], user: Sequence[int]) -> None:
        """One call in which everything is given."""
        for stream, value in enumerate((text, *own, *user)):
            self.board.setdefault((stream, self.call_number + DELAYS[stream]), value)
        self.inputs.append([self.board[stream, self.call_number - 1] for stream in range(17)])
        self.call_number += 1


@pytest.mark.parametrize("frames", [0, 5])
def test_every_input_is_the_one_that_the_model_would_have_been_given(frames: int) -> None:
    driven, voice = Driven(), None
    if frames:
        # After a voice its file says what lies on the board here and one further, four columns in a circle.
        around = torch.randint(0, TINY.code_card, (17, 4), generator=torch.Generator().manual_seed(1))
        voice = Voice(torch.zeros(frames, TINY.width), around)
        driven.call_number = frames + 1
        driven.board = {(k, frames): int(around[k, frames % 4]) for k in range(17)}
        driven.board |= {(k, frames + 1): int(around[k, (frames + 1) % 4]) for k in range(17) if DELAYS[k]}
    texts = [11, 12, 13]
    plan = plan_opening(TINY, texts, voice)
    for text in [PAD_TEXT] * SILENT_FRAMES + texts + [PAD_TEXT] * SILENT_FRAMES:
        driven.call(text, SILENCE, TONE_HERE)
    assert plan.frames == frames + len(driven.inputs)
    assert plan.pieces[-1].tolist() == driven.inputs
    # The first frame of the conversation: its delayed codes were given in the last one of the opening.
    assert plan.standing.forced == (FREE, *(SILENCE[k] if TINY.delays[k] else FREE for k in range(8)))
    here = [driven.board[stream, driven.call_number - 1] for stream in range(17)]
    assert list(plan.standing.made) == here[:9]
    newer, older = plan.standing.heard
    assert [older[k] if TINY.delays[k] else newer[k] for k in range(8)] == here[9:]


def test_a_voice_file_with_gaps_counts_them_as_nothing() -> None:
    voice = Voice(torch.zeros(2, TINY.width), torch.full((17, 4), -2))
    plan = plan_opening(TINY, (), voice)
    assert plan.pieces[-1][0].tolist() == list(NOTHING)


def test_instructions_are_put_as_the_model_was_taught_and_none_are_left_out() -> None:
    assert persona_text(" Be kind. ") == "<system> Be kind. <system>"
    assert persona_text("<system> Be kind. <system>") == "<system> Be kind. <system>"
    assert persona_text(None) == persona_text("  ") == ""
