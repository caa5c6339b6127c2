"""The part that hears and writes: sound to vectors, prompts and ids to the chances of the next id."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .prompt import LEAST_SAMPLES, SAMPLES_PER_FEATURE
from .rows import RowCache, keyword_of

RATE_HZ = 16_000


class Thinker:
    """A thinker of transformers with a memory of ``capacity`` tokens for each of ``slots``."""

    def __init__(self, model: Any, extractor: Any, *, accept_layer: int, slots: int, capacity: int) -> None:
        self._model = model
        self._extractor = extractor
        self._text = model.model.language_model
        self._keyword = keyword_of(self._text.forward)
        self._accept_layer = accept_layer
        self.device = self._text.embed_tokens.weight.device
        self.rows = RowCache(model.config.text_config, slots, capacity, self._text.embed_tokens.weight)

    def embedded(self, ids: Sequence[int]) -> Tensor:
        """The vectors of ids, (n, width)."""
        found: Tensor = self._text.embed_tokens(torch.tensor(list(ids), device=self.device))
        return found

    def heard(self, sound: bytes) -> Tensor:
        """The vectors of int16 at 16 kHz, (n, width)."""
        samples = np.frombuffer(sound, "<i2").astype(np.float32) / 32768.0
        samples = np.pad(samples, (0, max(0, LEAST_SAMPLES - samples.size)))
        samples = samples[: samples.size // SAMPLES_PER_FEATURE * SAMPLES_PER_FEATURE]
        features = self._extractor(
            samples,
            sampling_rate=RATE_HZ,
            padding="longest",
            truncation=False,
            return_attention_mask=True,
            return_tensors="pt",
        )
        found = self._model.get_audio_features(
            features["input_features"].to(self.device, self._text.embed_tokens.weight.dtype),
            feature_attention_mask=features["attention_mask"].to(self.device),
        )
        vectors: Tensor = found.last_hidden_state if hasattr(found, "last_hidden_state") else found
        return vectors

    def read(self, slot: int, embeds: Tensor) -> tuple[Tensor, Tensor]:
        """Go on in ``slot`` by (n, width): the chances of the next id (vocabulary,), and what the talker takes in."""
        found = self._forward([slot], embeds[None], output_hidden_states=True)
        logits: Tensor = self._model.lm_head(found.last_hidden_state[:, -1])
        return logits[0].float(), found.hidden_states[self._accept_layer][0]

    def step(self, slots: Sequence[int], ids: Sequence[int]) -> Tensor:
        """One more id in each of ``slots``: the chances of the next, (n, vocabulary)."""
        found = self._forward(slots, self.embedded(ids)[:, None])
        logits: Tensor = self._model.lm_head(found.last_hidden_state[:, -1])
        return logits.float()

    def _forward(self, slots: Sequence[int], embeds: Tensor, **more: Any) -> Any:
        mask, positions = self.rows.aim(slots, embeds.shape[1])
        found = self._text(
            inputs_embeds=embeds,
            attention_mask=mask,
            position_ids=positions[None].expand(3, -1, -1),
            use_cache=True,
            **{self._keyword: self.rows},
            **more,
        )
        self.rows.commit()
        return found
