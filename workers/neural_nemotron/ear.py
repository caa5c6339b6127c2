"""What is heard: sound to one vector a frame, through the causal conformer, for many sessions at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .mel import TAIL, LogMel
from .options import FRAME_SAMPLES
from .rows import AttentionView, EarRows, TailView, keyword_of


class Ear:
    """``encoder`` is a ``NemotronAsrStreamingEncoder``, ``projection`` leads into the backbone.

    The encoder's own forward knows one length for a whole batch; here its layers are called for rows of any age.
    """

    def __init__(self, encoder: Any, projection: Any, slots: int) -> None:
        like = projection.weight
        self._encoder, self._projection = encoder, projection
        self.rows = EarRows(encoder.config, slots, TAIL, like)
        self._mel = LogMel(encoder.config.num_mel_bins, like.device)
        self._attention, self._tails = AttentionView(self.rows), TailView(self.rows)
        self._keyword = keyword_of(encoder.layers[0].forward)
        stages = 1 + len(encoder.subsampling.layers)
        self._parts = 2 * encoder.config.num_hidden_layers + stages

    def forget(self, slot: int) -> None:
        """Make one slot as if it had never heard anything."""
        self.rows.forget(slot)

    def step(self, slots: Sequence[int], sound: Tensor) -> Tensor:
        """One frame of each of ``slots``: ``sound`` (all slots, 1280) in [-1, 1] gives (all slots, hidden)."""
        self.rows.aim_all(slots)
        return self._heard(sound)[:, 0]

    def read(self, slot: int, sound: Tensor) -> Tensor:
        """Frames of one slot in one piece: (frames * 1280,) gives (frames, hidden)."""
        self.rows.aim_one(slot)
        return self._heard(sound[None])[0]

    def _heard(self, sound: Tensor) -> Tensor:
        rows, encoder = self.rows, self._encoder
        ages = torch.tensor(rows.begin(sound.shape[1] // FRAME_SAMPLES), device=sound.device)
        columns, tail, last = self._mel.columns(sound, rows.sound[rows.places], rows.last[rows.places], rows.first)
        rows.sound[rows.places], rows.last[rows.places] = tail, last
        columns = columns.to(self._projection.weight.dtype)
        hidden = encoder.subsampling(columns, padding_cache=self._tails) * encoder.input_scale
        positions = encoder.encode_positions(hidden, cached_frames=rows.left)
        more = {self._keyword: self._attention}
        mask = self._mask(ages)
        for layer in encoder.layers:
            hidden = layer(
                hidden, attention_mask=mask, position_embeddings=positions, padding_cache=self._tails, **more
            )
        rows.commit(self._parts)
        return self._projection(hidden)

    def _mask(self, ages: Tensor) -> Tensor:
        """(n, 1, frames, kept + frames): each frame sees itself and those kept before it that were ever heard."""
        left, frames = self.rows.left, self.rows.frames
        query = torch.arange(frames, device=ages.device)[:, None]
        key = torch.arange(left + frames, device=ages.device)
        near = (key >= query) & (key <= query + left)
        heard = key >= left - ages.clamp_max(left)[:, None, None]
        return (near & heard)[:, None]
