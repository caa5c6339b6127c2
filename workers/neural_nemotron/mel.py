"""Sound to log-mel columns as it comes: the columns of a frame are those of the whole sound, to the last bit or so.

A column lies every 10 ms and looks 12.5 ms to both sides. Frame ``k`` of the conformer ends with column ``8 k``, whose
sound is there when frame ``k`` of the sound is: its other seven lie before it.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from .options import FRAME_SAMPLES, INPUT_HZ

COLUMNS = 8
"""Columns of a frame."""
HOP, WINDOW, FFT = FRAME_SAMPLES // COLUMNS, 400, 512
EMPHASIS = 0.97
GUARD = 2.0**-24
TAIL = (COLUMNS - 1) * HOP + FFT // 2
"""Samples before a frame that its columns look at."""


class LogMel:
    """Slaney's filters on a power spectrum, in 32-bit numbers; what was before is the caller's to keep."""

    def __init__(self, bins: int, device: torch.device) -> None:
        from transformers.audio_utils import mel_filter_bank

        filters = mel_filter_bank(FFT // 2 + 1, bins, 0.0, INPUT_HZ / 2, INPUT_HZ, norm="slaney", mel_scale="slaney")
        self._filters = torch.tensor(filters, dtype=torch.float32, device=device)
        side = (FFT - WINDOW) // 2
        window = torch.hann_window(WINDOW, periodic=False, dtype=torch.float32)
        self._window = functional.pad(window, (side, side)).to(device)

    def columns(self, sound: Tensor, tail: Tensor, last: Tensor, first: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """The columns of whole frames: ``sound`` (n, frames * 1280) gives (n, frames * 8, bins), a new tail and last.

        ``tail`` (n, ``TAIL``) is what was heard before, emphasised, and ``last`` (n, 1) the last sample of it, as it
        came. ``first`` (n,) says whose sound begins here, ``None`` that nobody's does: before it lies its own
        reflection, and seven of its columns lie before the first one that counts.
        """
        emphasised = sound - EMPHASIS * torch.cat((last, sound[:, :-1]), 1)
        if first is not None:
            begins = first[:, None]
            opening = torch.where(begins, sound[:, :1], emphasised[:, :1])
            emphasised = torch.cat((opening, emphasised[:, 1:]), 1)
            mirrored = torch.zeros_like(tail)
            mirrored[:, -FFT // 2 :] = emphasised[:, 1 : FFT // 2 + 1].flip(1)
            tail = torch.where(begins, mirrored, tail)
        heard = torch.cat((tail, emphasised), 1)
        seen = heard[:, : heard.shape[1] - FRAME_SAMPLES + FFT // 2]
        spectrum = torch.fft.rfft(seen.unfold(1, FFT, HOP) * self._window)
        power = spectrum.real.square() + spectrum.imag.square()
        return torch.log(power @ self._filters + GUARD), heard[:, -TAIL:], sound[:, -1:]
