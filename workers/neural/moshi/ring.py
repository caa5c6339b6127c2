"""Keys and values of one attention layer: a ring of columns for each slot, at the slot's own position."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Room = Callable[[str, tuple[int, ...], torch.dtype], Tensor]
"""Gives a ring the tensor of a name; what is in it stays."""
INT8_MOST = 127.0
# Keeps the scale of a row of zeros above zero, so that dividing by it stays finite.
INT8_LEAST = 1e-4


def sent(tensor: Tensor, device: torch.device) -> Tensor:
    """``tensor`` on ``device``, without waiting for what the device has still to do."""
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


class KvRing:
    """``keys`` and ``values`` are (slots, heads, columns, head size); position ``p`` lies in column ``p % columns``.

    A query sees ``window`` positions, its own included. Columns beyond those are spare: a slot may be set back by so
    many positions, as what it saw there has not been written over. ``room`` is where the tensors come from, if they are
    not to be this ring's own.

    With ``store`` int8 each head's row has a scale of its own, (slots, heads, columns). What is read back is the same
    whether it was written frame by frame or in one piece.
    """

    def __init__(
        self,
        slots: int,
        heads: int,
        columns: int,
        head_size: int,
        *,
        window: int | None = None,
        store: torch.dtype,
        compute: torch.dtype,
        device: torch.device,
        room: Room | None = None,
    ) -> None:
        self.columns, self.window = columns, window or columns
        self.compute = compute
        shape = (2, slots, heads, columns)
        room = room or (lambda name, shape, dtype: torch.zeros(shape, dtype=dtype, device=device))
        self._rows = room("rows", (*shape, head_size), store)
        self._scales = room("scales", shape, torch.float16) if store == torch.int8 else None

    @property
    def keys(self) -> Tensor:
        """All keys as they are stored."""
        return self._rows[0]

    @property
    def values(self) -> Tensor:
        """All values as they are stored."""
        return self._rows[1]

    @property
    def scales(self) -> Tensor | None:
        """(2, slots, heads, columns), of keys and of values; ``None`` unless int8."""
        return self._scales

    @property
    def bytes_per_slot(self) -> int:
        """What one slot takes."""
        tensors = [self._rows] if self._scales is None else [self._rows, self._scales]
        return sum(one[:, 0].numel() * one.element_size() for one in tensors)

    def fill_with_noise(self) -> None:
        """Random contents, for measuring: zeros run faster than data."""
        if self._scales is None:
            self._rows.normal_()
        else:
            self._rows.random_(-127, 128)
            self._scales.fill_(3.3 / INT8_MOST)

    def fill(self, slot: int, rows: Tensor) -> None:
        """Put ``rows`` (2, heads, columns, head size), keys and values, into one slot, as if they had been written."""
        for part in (0, 1):
            stored, scale = self._packed(rows[part])
            self._rows[part, slot] = stored
            if self._scales is not None and scale is not None:
                self._scales[part, slot] = scale

    def write(self, key: Tensor, value: Tensor, position: Tensor) -> tuple[Tensor, Tensor]:
        """Store ``key`` and ``value`` (slots, heads, new, head size) at ``position`` (slots, new); all rows, readable.

        A slot that does not run is written, too, where its next frame will be written over it: nobody looks there.
        """
        column = (position % self.columns)[:, None, :]
        for part, rows in enumerate((key, value)):
            stored, scale = self._packed(rows)
            self._rows[part].scatter_(2, column[..., None].expand_as(stored), stored)
            if self._scales is not None and scale is not None:
                self._scales[part].scatter_(2, column.expand_as(scale), scale)
        return self._unpacked(self._rows[0], 0, slice(None)), self._unpacked(self._rows[1], 1, slice(None))

    def extend(self, slot: int, key: Tensor, value: Tensor, first: int) -> tuple[Tensor, Tensor]:
        """Store a piece (heads, new, head size) of one slot from position ``first`` on.

        The answer is all that the piece may look at, (heads, seen + new, head size): what was there, oldest column
        first, then the piece. Of a piece that is longer than the ring its end is kept.
        """
        seen = min(first, self.columns)
        new = key.shape[1]
        at = torch.arange(first, first + new, device=key.device) % self.columns
        found = []
        for part, rows in enumerate((key, value)):
            before = self._unpacked(self._rows[part, slot, :, :seen], part, (slot, slice(None), slice(0, seen)))
            stored, scale = self._packed(rows)
            piece = stored if scale is None else stored.to(self.compute) * scale[..., None].to(self.compute)
            found.append(torch.cat([before, piece.to(self.compute)], 1))
            kept = slice(max(0, new - self.columns), None)
            self._rows[part, slot].index_copy_(1, at[kept], stored[:, kept])
            if self._scales is not None and scale is not None:
                self._scales[part, slot].index_copy_(1, at[kept], scale[:, kept])
        return found[0], found[1]

    def keep_end(self, slot: int, other: KvRing, positions: int) -> None:
        """Keep in one slot the last of ``positions`` that slot 0 of ``other`` holds, column by column from 0 on.

        ``other`` is as long as that and stores its rows alike.
        """
        first = max(0, positions - self.columns)
        at = torch.arange(first, positions, device=self._rows.device) % self.columns
        self._rows[:, slot].index_copy_(2, at, other._rows[:, 0, :, first:positions])
        if self._scales is not None and other._scales is not None:
            self._scales[:, slot].index_copy_(2, at, other._scales[:, 0, :, first:positions])

    def take(self, slot: int, other: KvRing) -> None:
        """Make one slot equal to slot 0 of ``other``, a ring of the same size."""
        self._rows[:, slot] = other._rows[:, 0]
        if self._scales is not None and other._scales is not None:
            self._scales[:, slot] = other._scales[:, 0]

    def read(self, slot: int, columns: int) -> tuple[Tensor, Tensor]:
        """The first ``columns`` columns of one slot, keys and values, each (heads, columns, head size)."""
        where = (slot, slice(None), slice(0, columns))
        keys, values = (self._unpacked(self._rows[part][where], part, where) for part in (0, 1))
        return keys, values

    def seen_by_step(self, position: Tensor) -> Tensor:
        """Which columns a query at ``position`` (slots, new) sees after ``write``: (slots, 1, new, columns)."""
        newest = position[:, -1:]
        column = torch.arange(self.columns, device=position.device)[None]
        held = newest - (newest - column) % self.columns
        return self._visible(held[:, None], position[:, :, None])[:, None]

    def seen_by_piece(self, first: int, new: int) -> Tensor:
        """The same for what ``extend`` answers: (new, seen + new)."""
        device = self._rows.device
        seen = min(first, self.columns)
        column = torch.arange(seen, device=device)
        asking = torch.arange(first, first + new, device=device)
        held = torch.cat([first - 1 - (first - 1 - column) % self.columns, asking])
        return self._visible(held[None], asking[:, None])

    def _visible(self, held: Tensor, asking: Tensor) -> Tensor:
        return (held >= 0) & (held <= asking) & (held > asking - self.window)

    def _packed(self, rows: Tensor) -> tuple[Tensor, Tensor | None]:
        if self._scales is None:
            return rows.to(self._rows.dtype), None
        rows = rows.float()
        scale = ((rows.abs().amax(-1) + INT8_LEAST) / INT8_MOST).to(torch.float16)
        whole = torch.floor(rows / scale[..., None].float() + 0.5).clamp(-INT8_MOST, INT8_MOST)
        return whole.to(torch.int8), scale

    def _unpacked(self, rows: Tensor, part: int, where: slice | tuple[int | slice, ...]) -> Tensor:
        rows = rows.to(self.compute)
        if self._scales is None:
            return rows
        return rows * self._scales[part][where][..., None].to(self.compute)
