"""Brings a codec to where it stood for a caller whose session was lost: from the codes that the log remembers."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ..graphs import recorded
from ..moshi.ring import sent
from .codec import StreamingCodec

PRIMED_FRAMES = 125
"""How much of what the caller said is given to a fresh encoder again: 10 s, as far as its layers look."""


class Reviver:
    """Works in a codec of one slot of its own, so that what it does to a long session is always the same and is

    recorded once. ``revive`` returns before the device has done its work, which runs beside whatever the device does
    for others; what is asked of the device afterwards waits for it.
    """

    def __init__(self, codec: StreamingCodec) -> None:
        self._codec = codec
        self._own = StreamingCodec(codec.model, 1, codebooks=codec.codebooks)
        device, books = codec.device, codec.codebooks
        self._heard = torch.zeros(PRIMED_FRAMES, books, dtype=torch.long, device=device)
        self._said = torch.zeros(codec.memory_frames, books, dtype=torch.long, device=device)
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self._long: Callable[[], None] = self._work

    def record(self) -> None:
        """Warm up, and record what a long session takes where the device can."""
        self._long = recorded(self._work, self._codec.device)

    def revive(self, slot: int, heard: Tensor, said: Tensor) -> None:
        """Let ``slot`` stand where it would after these codes (frames, codebooks): the caller's into the encoder,

        as ``PRIMED_FRAMES`` of them tell, the model's into the decoder. Both may be longer than what counts.
        """
        if self._stream is None:
            self._revive(slot, heard, said)
            return
        main = torch.cuda.current_stream(self._codec.device)
        with torch.cuda.stream(self._stream):
            self._revive(slot, heard, said)
        main.wait_stream(self._stream)

    def _revive(self, slot: int, heard: Tensor, said: Tensor) -> None:
        heard, said = heard[-len(self._heard) :], said[-len(self._said) :]
        if len(heard) == len(self._heard) and len(said) == len(self._said):
            self._heard.copy_(sent(heard, self._codec.device))
            self._said.copy_(sent(said, self._codec.device))
            self._long()
        else:
            self._tell(sent(heard, self._codec.device), sent(said, self._codec.device))
        self._codec.take(slot, self._own)

    def _work(self) -> None:
        self._tell(self._heard, self._said)

    def _tell(self, heard: Tensor, said: Tensor) -> None:
        own = self._own
        own.reset(0)
        own.encode_piece(0, own.decode_piece(0, heard))
        own.reset_decoder(0)
        own.hear_again(0, said)
