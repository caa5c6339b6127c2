"""What comes before the first frame of a session: a voice, a silence, who it is to be, and a silence.

All of it is known beforehand, so it goes in as one piece. In each of these frames the caller's side plays a tone and
the model's side is silent; only the text differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..moshi.shape import MoshiShape
from ..moshi.stepper import FREE, Standing
from .silence import PAD_TEXT, silence_of
from .voices import Voice

TONE = (430, 1268, 381, 1611, 1095, 1495, 56, 472)
"""The codes of the caller's 440 Hz tone."""
SILENT_FRAMES = 6


@dataclass(frozen=True, slots=True)
class Opening:
    """The pieces to put in, in order, and where the slot stands then. ``frames`` is the number of them all."""

    pieces: tuple[Tensor, ...]
    standing: Standing

    @property
    def frames(self) -> int:
        """How many frames the opening takes of the window."""
        return sum(len(piece) for piece in self.pieces)


def persona_text(instructions: str | None) -> str:
    """The instructions as the model was taught to read them; empty without any."""
    said = (instructions or "").strip()
    if not said:
        return ""
    return said if said.startswith("<system>") and said.endswith("<system>") else f"<system> {said} <system>"


def plan_opening(shape: MoshiShape, texts: Sequence[int], voice: Voice | None) -> Opening:
    """The opening with the persona's text ids ``texts`` and a voice; without one the model begins from nothing."""
    said = [PAD_TEXT] * SILENT_FRAMES + list(texts) + [PAD_TEXT] * SILENT_FRAMES
    standing = Standing.first(shape) if voice is None else _after_voice(shape, voice)
    ids, standing = _told(shape, said, standing)
    pieces = (ids,) if voice is None else (voice.rows, ids)
    return Opening(pieces, standing)


def _after_voice(shape: MoshiShape, voice: Voice) -> Standing:
    """Where a voice leaves the model: its file holds the ids around its end, by position modulo its columns."""
    columns = voice.around.shape[1]
    here, following = (voice.around[:, (len(voice.rows) + more) % columns].tolist() for more in (0, 1))
    nothing = [shape.text_card] + [shape.code_card] * (shape.streams - 1)
    here, following = (
        [code if 0 <= code <= limit else limit for code, limit in zip(column, nothing, strict=True)]
        for column in (here, following)
    )
    # What was given in a frame is an input one frame later, or two if its code is delayed.
    newer = tuple(following[shape.made + k] if delay else here[shape.made + k] for k, delay in enumerate(shape.delays))
    # Delayed codes of the coming frame were decided in this one.
    forced = [following[1 + k] if delay else FREE for k, delay in enumerate(shape.delays)]
    return Standing(tuple(here[: shape.made]), (newer, tuple(here[shape.made :])), (FREE, *forced))


def _told(shape: MoshiShape, said: Sequence[int], before: Standing) -> tuple[Tensor, Standing]:
    """Model inputs (frames, streams) of frames in which all is given: text ``said``, silence and the tone."""
    silence = silence_of(shape)
    tone = tuple(code % shape.code_card for code in TONE)
    rows = []
    made, forced = before.made, before.forced
    newer, older = before.heard
    for text in said:
        user = tuple(older[k] if delay else newer[k] for k, delay in enumerate(shape.delays))
        rows.append([*made, *user])
        codes = (
            silence[k] if not delay else (forced[1 + k] if forced[1 + k] != FREE else silence[k])
            for k, delay in enumerate(shape.delays)
        )
        made = (text, *codes)
        forced = (FREE, *(silence[k] if delay else FREE for k, delay in enumerate(shape.delays)))
        newer, older = tone, newer
    return torch.tensor(rows).reshape(-1, shape.streams), Standing(tuple(made), (newer, older), forced)
