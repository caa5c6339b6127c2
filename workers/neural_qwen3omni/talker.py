"""The part that speaks: what was heard and what is being written, to a frame of codes every 80 ms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .rows import RowCache, keyword_of
from .sampling import Sampling, drawn

SPECIAL_CODES = 1024
"""The last ids of the talker's vocabulary: never drawn, but for the one that ends the speech."""


class Talker:
    """A talker of transformers with a memory of ``capacity`` frames and prompt tokens for each of ``slots``."""

    def __init__(self, model: Any, config: Any, *, slots: int, capacity: int) -> None:
        """``model`` is the talker, ``config`` the whole model's."""
        self._model = model
        self._config = config
        own = config.talker_config
        self._keyword = keyword_of(model.model.forward)
        self._embedding = model.get_input_embeddings()
        self._residual_embeddings = model.code_predictor.get_input_embeddings()
        self._residual_heads = model.code_predictor.lm_head
        self._residual_keyword = keyword_of(model.code_predictor.model.forward)
        self.groups: int = own.num_code_groups
        self.end: int = own.codec_eos_token_id
        self.device = self._embedding.weight.device
        self.rows = RowCache(own.text_config, slots, capacity, self._embedding.weight)
        self._residual_rows = RowCache(own.code_predictor_config, slots, self.groups + 1, self._embedding.weight)
        forbidden = torch.zeros(own.text_config.vocab_size, dtype=torch.bool, device=self.device)
        forbidden[-SPECIAL_CODES:] = True
        forbidden[self.end] = False
        self._forbidden = forbidden

    @property
    def speakers(self) -> dict[str, int]:
        """The voices there are, lower case, and their ids."""
        return dict(self._config.talker_config.speaker_id or {})

    def projected(self, embeds: Tensor) -> Tensor:
        """The thinker's vectors of text (n, width) as the talker's."""
        found: Tensor = self._model.text_projection(embeds)
        return found

    def opening(self, embeds: Tensor, hidden: Tensor, heard: Tensor, special: Tensor, speaker: int) -> Tensor:
        """What comes before the first word: the callers' part of the prompt, and how speech begins; (n, width).

        ``embeds`` and ``hidden`` (n, width) are the thinker's of that part, ``heard`` says which of it are sound;
        ``special`` are the thinker's vectors of ``openers``.
        """
        user = torch.where(heard[:, None], self._model.hidden_projection(hidden), self.projected(embeds))
        role, pad, begin = self.projected(special).split((3, 1, 1))
        text = torch.cat((role, pad.expand(4, -1), begin))
        own = self._config.talker_config
        codes = self._codes(
            [own.codec_nothink_id, own.codec_think_bos_id, own.codec_think_eos_id, speaker, own.codec_pad_id]
        )
        return torch.cat((user, text[:3], text[3:] + codes))

    def openers(self, newline: int) -> list[int]:
        """The text ids whose vectors ``opening`` wants."""
        config = self._config
        marks = [config.im_start_token_id, config.assistant_token_id, newline]
        return [*marks, config.tts_pad_token_id, config.tts_bos_token_id]

    @property
    def first(self) -> Tensor:
        """What is added to the first word, (width,)."""
        return self._codes([self._config.talker_config.codec_bos_id])[0]

    @property
    def after_text(self) -> tuple[int, int]:
        """The text ids that stand for the end of the text, once, and for nothing more to say, from then on."""
        return self._config.tts_eos_token_id, self._config.tts_pad_token_id

    def _codes(self, ids: Sequence[int]) -> Tensor:
        found: Tensor = self._embedding(torch.tensor(list(ids), device=self.device))
        return found

    def frame(self, codes: Tensor) -> Tensor:
        """Frames (n, groups) as vectors (n, width)."""
        parts = [self._embedding(codes[:, 0])]
        parts += [table(codes[:, place + 1]) for place, table in enumerate(self._residual_embeddings)]
        return torch.stack(parts, 1).sum(1)

    def read(self, slot: int, embeds: Tensor) -> None:
        """Go on in ``slot`` by (n, width)."""
        self._forward([slot], embeds[None])

    def step(self, slots: Sequence[int], embeds: Tensor) -> tuple[Tensor, Tensor]:
        """One more vector (n, width) in each slot: what the residuals grow from (n, width), and the chances of the

        frame's first code, (n, vocabulary).
        """
        hidden = self._forward(slots, embeds[:, None])[:, -1]
        logits = self._model.codec_head(hidden).float()
        return hidden, logits.masked_fill(self._forbidden, float("-inf"))

    def _forward(self, slots: Sequence[int], embeds: Tensor) -> Tensor:
        mask, positions = self.rows.aim(slots, embeds.shape[1])
        found = self._model.model(
            inputs_embeds=embeds,
            attention_mask=mask,
            position_ids=positions[None].expand(3, -1, -1),
            use_cache=True,
            **{self._keyword: self.rows},
        )
        self.rows.commit()
        hidden: Tensor = found.last_hidden_state
        return hidden

    def residuals(self, hidden: Tensor, first: Tensor, dice: Tensor, settings: Sequence[Sampling]) -> Tensor:
        """Whole frames (n, groups) of their ``first`` codes (n,); ``dice`` is (n, groups - 1)."""
        rows = self._residual_rows
        places = range(len(settings))
        for place in places:
            rows.cut(place)
        embeds = torch.stack((hidden, self._embedding(first)), 1)
        codes = [first]
        for group in range(self.groups - 1):
            mask, positions = rows.aim(places, embeds.shape[1])
            found = self._model.code_predictor.model(
                inputs_embeds=embeds,
                attention_mask=mask,
                position_ids=positions,
                use_cache=True,
                **{self._residual_keyword: rows},
            )
            rows.commit()
            logits = self._residual_heads[group](found.last_hidden_state[:, -1])
            codes.append(drawn(logits, dice[:, group], settings))
            embeds = self._residual_embeddings[group](codes[-1])[:, None]
        return torch.stack(codes, 1)
