"""One beat on the device: sound in, codes, the model, codes, sound out; recorded once, played every 80 ms."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from workers.engine.contract import Floats

from ..graphs import recorded
from ..mimi.codec import FRAME_SAMPLES, StreamingCodec
from ..mimi.reviving import Reviver
from ..moshi.stepper import Stepper
from .silence import silence_of

LOUDEST = 32_767.0


@dataclass(frozen=True, slots=True)
class Heard:
    """What one beat gave, a row for each slot that was asked for: ``pcm`` int16 (n, 1920), ``text`` (n,) ids of what

    is being said, ``records`` (n, 17) what is to be remembered.
    """

    pcm: npt.NDArray[np.int16]
    text: npt.NDArray[np.int32]
    records: npt.NDArray[np.int32]


class Beat:
    """The device's side of all slots. ``record`` it before the first ``play``; nothing runs while it is recorded."""

    def __init__(self, stepper: Stepper, codec: StreamingCodec) -> None:
        if stepper.slots != codec.slots or stepper.shape.codebooks != codec.codebooks:
            raise ValueError("stepper and codec are not of one size")
        self.stepper, self.codec = stepper, codec
        slots, device = stepper.slots, stepper.device
        self.pcm = torch.zeros(slots, FRAME_SAMPLES, device=device)
        self.sound = torch.zeros(slots, FRAME_SAMPLES, dtype=torch.int16, device=device)
        self.ids = torch.zeros(slots, 1 + stepper.shape.streams, dtype=torch.int32, device=device)
        self.reviver = Reviver(codec)
        # In both places: asking one for the other's would be waiting for the device.
        self._silence = {place: torch.tensor(silence_of(stepper.shape), device=place) for place in {"cpu", device.type}}
        pinned = device.type == "cuda"
        self._pcm_in = torch.zeros(slots, FRAME_SAMPLES, pin_memory=pinned)
        self._run_in = torch.zeros(slots, dtype=torch.bool, pin_memory=pinned)
        self._sound_out = torch.zeros(slots, FRAME_SAMPLES, dtype=torch.int16, pin_memory=pinned)
        self._ids_out = torch.zeros(self.ids.shape, dtype=torch.int32, pin_memory=pinned)
        self.parts: tuple[Callable[[], None], ...] = self.plain_parts
        self._retrace: Callable[[], None] = stepper.retrace

    @property
    def plain_parts(self) -> tuple[Callable[[], None], ...]:
        """The three parts of a beat, launched kernel by kernel."""
        return (self._encode, self._step, self._decode)

    def record(self) -> None:
        """Warm up, and record the parts where the device can."""
        self.stepper.run.zero_()
        self.parts = tuple(recorded(part, self.stepper.device) for part in self.plain_parts)
        self._retrace = recorded(self.stepper.retrace, self.stepper.device)
        self.reviver.record()
        self.synchronize()

    def retrace(self, slot: int, records: Tensor) -> None:
        """Put frames of which ``records`` (frames, 17, on the device) tell all into one slot, one after the other."""
        made = self.stepper.shape.made
        self.stepper.run.zero_()
        self.stepper.run[slot] = True
        for record in records:
            self.stepper.given[slot] = record[:made]
            self.stepper.user[slot] = record[made:]
            self._retrace()
        self.synchronize()

    def reset(self, slot: int, seed: tuple[int, int]) -> None:
        """Empty a slot."""
        self.stepper.reset(slot, seed)
        self.codec.reset(slot)

    def play(self, slots: Sequence[int], frames: Floats) -> Heard:
        """One beat of ``slots``; the others stand still. ``frames`` (n, 1920) are finite and in [-1, 1]."""
        chosen = list(slots)
        self._pcm_in.numpy()[chosen] = frames
        self._run_in.zero_()
        self._run_in[chosen] = True
        self.pcm.copy_(self._pcm_in, non_blocking=True)
        self.stepper.run.copy_(self._run_in, non_blocking=True)
        for part in self.parts:
            part()
        self._sound_out.copy_(self.sound, non_blocking=True)
        self._ids_out.copy_(self.ids, non_blocking=True)
        self.synchronize()
        ids = self._ids_out.numpy()[chosen]
        return Heard(self._sound_out.numpy()[chosen], ids[:, 0], ids[:, 1:])

    def synchronize(self) -> None:
        """Return once the device has done what it was given."""
        if self.stepper.device.type == "cuda":
            torch.cuda.synchronize(self.stepper.device)

    # -- the parts -------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def _encode(self) -> None:
        self.stepper.user.copy_(self.codec.encode(self.pcm, self.stepper.run))

    @torch.no_grad()
    def _step(self) -> None:
        self.stepper.step()
        self.ids[:, 0] = self.stepper.text
        self.ids[:, 1:] = self.stepper.record

    @torch.no_grad()
    def _decode(self) -> None:
        wave = self.codec.decode(self.audible(self.stepper.agent), self.stepper.run)
        self.sound.copy_(torch.round(wave.float().clamp(-1, 1) * LOUDEST))

    def audible(self, codes: Tensor) -> Tensor:
        """``codes`` (…, codebooks) with those that stand for nothing made silence."""
        return torch.where(codes < self.stepper.shape.code_card, codes, self._silence[codes.device.type])
