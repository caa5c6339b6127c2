"""Encoding and decoding one frame of many slots, or a longer piece of one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from .streaming import (
    CausalConvolution,
    CausalUpsampling,
    Layer,
    Residual,
    Stateless,
    Whose,
    WindowedTransformer,
)

FRAME_SAMPLES = 1920
RATE_HZ = 24_000
# Two positions of the codec's transformers are one frame.
POSITIONS_A_FRAME = 2
# As far as the convolutions from the transformers' positions to samples look back, and some more.
SETTLING_FRAMES = 8


class StreamingCodec:
    """A Mimi model for ``slots`` callers: equal to the library's own codec over the whole of what a slot was given.

    Encoder and decoder of a slot are independent of each other. A slot that does not run stands still; what comes out
    for it means nothing.
    """

    def __init__(self, model: Any, slots: int, *, codebooks: int = 8) -> None:
        self.model, self.slots, self.codebooks = model.eval().requires_grad_(False), slots, codebooks
        parameter = next(model.parameters())
        self.device, self.dtype = parameter.device, parameter.dtype
        front, back = _halves(model)
        self._front: list[Layer] = [
            *_layers(front["seanet"].layers, slots),
            WindowedTransformer(front["transformer"], model.config, slots),
            CausalConvolution(front["resampling"].conv, slots, repeats=True),
        ]
        self._middle: list[Layer] = [
            CausalUpsampling(back["resampling"].conv, slots),
            WindowedTransformer(back["transformer"], model.config, slots),
        ]
        self._back = _layers(back["seanet"].layers, slots)
        self._is_fresh = torch.ones(slots, dtype=torch.bool, device=self.device)
        self._nobody = torch.zeros(slots, dtype=torch.bool, device=self.device)

    @property
    def layers(self) -> tuple[Layer, ...]:
        """All layers of both directions, those without memory included."""
        return (*self._front, *self._middle, *self._back)

    @property
    def bytes_per_slot(self) -> int:
        """What one slot takes."""
        return sum(layer.bytes_per_slot for layer in self.layers)

    @property
    def memory_frames(self) -> int:
        """A frame longer ago than this has no influence on what is decoded now, and on what is encoded."""
        config = self.model.config
        # The convolutions reach no further than a frame or two.
        return config.num_hidden_layers * config.sliding_window // POSITIONS_A_FRAME + 4

    def reset(self, slot: int) -> None:
        """Forget everything of ``slot``."""
        for layer in self.layers:
            layer.reset(slot)
        self._is_fresh[slot].fill_(True)

    def reset_decoder(self, slot: int) -> None:
        """Forget what ``slot`` decoded."""
        for layer in (*self._middle, *self._back):
            layer.reset(slot)

    def take(self, slot: int, other: StreamingCodec) -> None:
        """Let ``slot`` stand where slot 0 of ``other`` stands, a codec of the same model."""
        for mine, theirs in zip(self.layers, other.layers, strict=True):
            mine.take(slot, theirs)
        self._is_fresh[slot] = other._is_fresh[0]

    @torch.no_grad()
    def encode(self, pcm: Tensor, run: Tensor) -> Tensor:
        """Samples (slots, 1920) in [-1, 1] to codes (slots, codebooks)."""
        codes = self._encoded(pcm, Whose(run, self._is_fresh))[..., 0]
        self._is_fresh.logical_and_(~run)
        return codes

    @torch.no_grad()
    def decode(self, codes: Tensor, run: Tensor) -> Tensor:
        """Codes (slots, codebooks) to samples (slots, 1920)."""
        return self._decoded(codes[..., None], Whose(run, self._is_fresh))

    @torch.no_grad()
    def encode_piece(self, slot: int, pcm: Tensor) -> Tensor:
        """The next samples (frames x 1920,) of one slot to codes (frames, codebooks), in one go."""
        codes = self._encoded(pcm[None], Whose(self._nobody, self._is_fresh, slot))
        self._is_fresh[slot].fill_(False)
        return codes[0].T

    @torch.no_grad()
    def decode_piece(self, slot: int, codes: Tensor) -> Tensor:
        """The next codes (frames, codebooks) of one slot to samples (frames x 1920,)."""
        return self._decoded(codes.T[None], Whose(self._nobody, self._is_fresh, slot))[0]

    @torch.no_grad()
    def hear_again(self, slot: int, codes: Tensor) -> None:
        """Bring a decoder that was reset to where it stands after ``codes`` (frames, codebooks), without their sound.

        As ``decode_piece`` would, at a fraction of its cost: what turns positions into samples looks back so little
        that it need not see all of them.
        """
        whose = Whose(self._nobody, self._is_fresh, slot)
        x = _through(self._middle, self.model.quantizer.decode(codes.T[None]).to(self.dtype), whose)
        _through(self._back, x[..., -SETTLING_FRAMES * POSITIONS_A_FRAME :], whose)

    def _encoded(self, pcm: Tensor, whose: Whose) -> Tensor:
        x = _through(self._front, pcm.to(self.dtype)[:, None], whose)
        codes: Tensor = self.model.quantizer.encode(x.float(), self.codebooks)
        return codes.transpose(0, 1)

    def _decoded(self, codes: Tensor, whose: Whose) -> Tensor:
        x = self.model.quantizer.decode(codes).to(self.dtype)
        return _through([*self._middle, *self._back], x, whose)[:, 0]


def _through(layers: Iterable[Layer], x: Tensor, whose: Whose) -> Tensor:
    for layer in layers:
        x = layer(x, whose)
    return x


def _halves(model: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Where the library keeps the parts: nested in two halves (5.24), or all beside each other (5.17).

    Raises: NotImplementedError for a library that does neither.
    """
    encoder: Any = getattr(model, "encoder", None)
    decoder: Any = getattr(model, "decoder", None)
    if hasattr(encoder, "encoder_seanet") and hasattr(decoder, "decoder_seanet"):
        front = {"seanet": encoder.encoder_seanet, "from": encoder}
        back = {"seanet": decoder.decoder_seanet, "from": decoder}
    elif hasattr(encoder, "layers") and hasattr(model, "downsample"):
        front, back = {"seanet": encoder, "from": model}, {"seanet": decoder, "from": model}
    else:
        raise NotImplementedError("this version of transformers keeps the parts of Mimi in places unknown here")
    front |= {"transformer": front["from"].encoder_transformer, "resampling": front["from"].downsample}
    back |= {"transformer": back["from"].decoder_transformer, "resampling": back["from"].upsample}
    return front, back


def _layers(modules: Iterable[nn.Module], slots: int) -> list[Layer]:
    """The library's convolution stack with memory. Raises: NotImplementedError for a layer that is not known."""
    found: list[Layer] = []
    for module in modules:
        kind = type(module).__name__
        if kind == "MimiConv1d":
            found.append(CausalConvolution(module.conv, slots))
        elif kind == "MimiConvTranspose1d":
            found.append(CausalUpsampling(module.conv, slots))
        elif kind == "MimiResnetBlock":
            if not isinstance(module.shortcut, nn.Identity):
                raise NotImplementedError("a residual block of Mimi with a convolution in its shortcut")
            found.append(Residual(_layers(module.block, slots)))
        elif isinstance(module, nn.ELU):
            found.append(Stateless(module))
        else:
            raise NotImplementedError(f"a layer of Mimi of the kind {kind}")
    return found
