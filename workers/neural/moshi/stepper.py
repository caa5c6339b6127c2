"""Many slots, one frame each: who runs, what goes in, what is made, and what was known before.

Every tensor has a fixed shape and place, so one recorded graph of ``step`` serves whatever mix of slots.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .ring import KvRing, Room, sent
from .sampling import Sampling, drawn, keys_of
from .shape import MoshiShape
from .transformers import MoshiModel

FREE = -1
"""In ``forced``: this id is the model's to choose."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a slot is after a frame, besides its window.

    ``made`` is that frame's text and own codes, ``heard`` the caller's codes given in it and in the frame before, and
    ``forced`` what the next frame must make (``FREE``: nothing).
    """

    made: tuple[int, ...]
    heard: tuple[tuple[int, ...], tuple[int, ...]]
    forced: tuple[int, ...]

    @classmethod
    def first(cls, shape: MoshiShape) -> Standing:
        """Before any frame. Codes that are delayed have nothing to say in the first one."""
        nothing = (shape.code_card,) * shape.codebooks
        forced = tuple(shape.code_card if delay else FREE for delay in shape.delays)
        return cls((shape.text_card, *nothing), (nothing, nothing), (FREE, *forced))


class Stepper:
    """Steps ``slots`` sessions of ``model``. What happens in one slot changes nothing in another.

    Set ``user`` (slots, codebooks) and ``run`` (slots,), call ``step``, read ``text`` (slots,), ``agent`` (slots,
    codebooks): both are of the moment that can be heard now, and ``record`` (slots, 1 + 2 x codebooks): what this
    frame made and what it was given. A slot that does not run stands still.

    The caller's codes of a frame are looked at in the next one: that is how the model was trained to be driven.

    With ``spare`` a slot can be set back by so many frames. ``room`` gives the windows' tensors by the number of their
    layer and their name.
    """

    def __init__(
        self,
        model: MoshiModel,
        slots: int,
        *,
        store: torch.dtype | None = None,
        sampling: Sampling | None = None,
        spare: int = 0,
        room: Room | None = None,
    ) -> None:
        self.model, self.shape, self.slots = model, model.shape, slots
        self.sampling = sampling or Sampling()
        self.device, self.dtype = model.text.device, model.text.dtype
        shape = self.shape
        self.rings = [
            KvRing(
                *(slots, shape.heads, shape.window + spare, shape.head_size),
                window=shape.window,
                store=store or self.dtype,
                compute=self.dtype,
                device=self.device,
                room=room and _numbered(room, number),
            )
            for number in range(shape.layers)
        ]
        self.user = self._ids(slots, shape.codebooks)
        self.run = torch.zeros(slots, dtype=torch.bool, device=self.device)
        self.given = self._ids(slots, shape.made)
        self.text = self._ids(slots)
        self.agent = self._ids(slots, shape.codebooks)
        self.record = self._ids(slots, shape.streams)
        self.hidden = torch.zeros(slots, shape.width, dtype=self.dtype, device=self.device)
        self.position = self._ids(slots)
        self._origin = self._ids(slots)
        self._seeds = self._ids(slots, 2)
        self._made = self._ids(slots, shape.made)
        self._heard = self._ids(slots, 2, shape.codebooks)
        self._forced = self._ids(slots, shape.made)
        self._is_delayed = torch.tensor(shape.delays, device=self.device) > 0
        for slot in range(slots):
            self.reset(slot, (slot, 0))

    def _ids(self, *size: int) -> Tensor:
        return torch.zeros(size, dtype=torch.long, device=self.device)

    # -- one slot --------------------------------------------------------------------------------------------------

    def reset(self, slot: int, seed: tuple[int, int]) -> None:
        """Empty ``slot``; its dice will be those of ``seed``."""
        for state in (self.run, self.position, self._origin):
            state[slot].zero_()
        self._seeds[slot] = sent(torch.tensor(seed), self.device)
        self.place(slot, Standing.first(self.shape))

    def place(self, slot: int, standing: Standing, *, origin: int = 0, position: int | None = None) -> None:
        """Set where ``slot`` stands. ``origin`` is added to its position for the dice: frames that were left out.

        ``position`` is where it goes on in its window; ``None``: where it is.
        """
        self._made[slot] = sent(torch.tensor(standing.made), self.device)
        self._heard[slot] = sent(torch.tensor(standing.heard), self.device)
        self._forced[slot] = sent(torch.tensor(standing.forced), self.device)
        self._origin[slot].fill_(origin)
        if position is not None:
            self.position[slot].fill_(position)

    def follow(self, other: Stepper) -> None:
        """Stand where ``other`` stands in all slots, windows apart."""
        for mine, theirs in (
            (self._made, other._made),
            (self._heard, other._heard),
            (self._forced, other._forced),
            (self._origin, other._origin),
            (self.position, other.position),
        ):
            mine.copy_(theirs)

    @torch.no_grad()
    def prefill(self, slot: int, piece: Tensor, first: int) -> None:
        """Put known model inputs into ``slot`` from position ``first`` on: ids (new, streams) or rows (new, width).

        At most a window at a time. ``first`` is where the slot stands now.
        """
        rows = piece if piece.is_floating_point() else self.model.embedded(piece)
        self._through_piece(rows.to(self.dtype), slot, first)
        self.position[slot].fill_(first + len(piece))

    @torch.no_grad()
    def prefill_whole(self, slot: int, pieces: Sequence[Tensor]) -> None:
        """Put all that is known of a session into its empty ``slot`` in one go, however long it is.

        ``pieces`` are as ``prefill`` takes them. The window is that of ``prefill``, up to rounding.
        """
        rows = [piece if piece.is_floating_point() else self.model.embedded(piece) for piece in pieces if len(piece)]
        whole = torch.cat([one.to(self.dtype) for one in rows])
        self._through_whole(whole, slot)
        self.position[slot].fill_(len(whole))

    def inputs_of(self, records: Tensor, before: Standing) -> tuple[Tensor, Standing]:
        """The model inputs of frames that gave ``records`` (frames, 1 + 2 x codebooks), and where they led.

        ``before`` is where the slot stood before the first of them.
        """
        made_now, heard_now = records.split([self.shape.made, self.shape.codebooks], 1)
        device = records.device
        made = torch.cat([torch.tensor([before.made], device=device), made_now])
        # heard[n] is what was given two frames before frame n.
        given = torch.tensor([before.heard[1], before.heard[0]], device=device)
        heard = torch.cat([given, heard_now])
        frames = len(records)
        user = torch.where(self._is_delayed.to(device), heard[:frames], heard[1 : frames + 1])
        newest, older = heard[-1].tolist(), heard[-2].tolist()
        forced = before.forced if not frames else (FREE,) * self.shape.made
        after = Standing(tuple(made[-1].tolist()), (tuple(newest), tuple(older)), tuple(forced))
        return torch.cat([made[:frames], user], 1), after

    # -- all slots -------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def step(self) -> None:
        """One frame of every slot that runs."""
        keys = keys_of(self._seeds, self.position + self._origin, self.shape.made)
        made = self._through(self._inputs(), keys)
        own = torch.where(self._is_delayed, made[:, 1:], self._made[:, 1:])
        self.text.copy_(self._made[:, 0])
        self.agent.copy_(own)
        self.record.copy_(torch.cat([made, self.user], 1))
        self._advance(made)

    @torch.no_grad()
    def retrace(self) -> None:
        """One frame, of which all is known, of every slot that runs: ``given`` (slots, 1 + codebooks) was made in it.

        The window is computed by the very kernels of ``step``: it is the same bit by bit, which that of ``prefill``
        need not be. It takes as long as a step, less what happens within a frame.
        """
        self._over_time(self._inputs())
        self._advance(self.given)

    def _inputs(self) -> Tensor:
        user = torch.where(self._is_delayed, self._heard[:, 1], self._heard[:, 0])
        return torch.cat([self._made, user], 1)

    def _advance(self, made: Tensor) -> None:
        run = self.run[:, None]
        self._made.copy_(torch.where(run, made, self._made))
        heard = torch.stack([self.user, self._heard[:, 0]], 1)
        self._heard.copy_(torch.where(run[..., None], heard, self._heard))
        self._forced.copy_(torch.where(run, FREE, self._forced))
        self.position.add_(self.run)

    def _through(self, ids: Tensor, keys: Tensor) -> Tensor:
        """Both transformers: model inputs (slots, streams) to what is made (slots, made)."""
        hidden = self._over_time(ids)

        def pick(logits: Tensor, stream: int) -> Tensor:
            found = self._drawn(logits, keys[:, stream], is_text=stream == 0)
            forced = self._forced[:, stream]
            return torch.where(forced == FREE, found, forced)

        text = pick(torch.nn.functional.linear(hidden, self.model.head), 0)
        return torch.cat([text[:, None], self.model.depth(hidden, text, pick)], 1)

    def _over_time(self, ids: Tensor) -> Tensor:
        """The temporal transformer alone: model inputs to normed rows (slots, width), which ``hidden`` keeps."""
        hidden = self.model.over_time(self.model.embedded(ids), self.rings, self.position)
        self.hidden.copy_(hidden)
        return hidden

    def _drawn(self, logits: Tensor, key: Tensor, *, is_text: bool) -> Tensor:
        how = self.sampling
        temperature, top = (how.text_temperature, how.text_top) if is_text else (how.code_temperature, how.code_top)
        return drawn(logits, key, temperature, top, greedy=how.greedy)

    def _through_piece(self, rows: Tensor, slot: int, first: int) -> None:
        self.model.through_piece(rows, self.rings, slot, first)

    def _through_whole(self, rows: Tensor, slot: int) -> None:
        at = 0
        for piece in rows.split(self.shape.window):
            self._through_piece(piece, slot, at)
            at += len(piece)


def _numbered(room: Room, number: int) -> Room:
    return lambda name, shape, dtype: room(f"{number}.{name}", shape, dtype)
