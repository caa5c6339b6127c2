"""What conformer and backbone remember of many sessions: tensors with a row for each slot, written in place.

They stand where transformers expect a cache. Every forward is over fixed rows: all slots, or one that is being read
into. A slot that stands still takes part in a step with a row that nobody owns, so its own is not touched, and the
shapes are the same whoever steps: what a row gives does not depend on the others.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor


class CacheIgnored(RuntimeError):
    """The model ran without its memory: it does not know the keyword this one was handed over by."""


def keyword_of(forward: Callable[..., Any]) -> str:
    """What ``forward`` calls its cache: older versions of transformers take another name, and ignore this one."""
    return "cache" if "cache" in inspect.signature(forward).parameters else "past_key_values"


class Rows:
    """Which rows a forward is over: ``rows``, and ``places`` (n,), the same on the device. All of them are written.

    What must be known of them is kept on this side too: a step asks the device nothing before its tokens.
    """

    def __init__(self, slots: int, device: torch.device) -> None:
        self.slots, self.nobody = slots, slots
        self.device = device
        self.rows: tuple[int, ...] = ()
        self.places: Tensor = torch.zeros(0, dtype=torch.long, device=device)
        self.used: set[object] = set()

    def aim_all(self, slots: Sequence[int]) -> None:
        """The next forward steps ``slots``: row ``i`` is slot ``i``, or nobody's."""
        stepping = set(slots)
        self._aim(tuple(slot if slot in stepping else self.nobody for slot in range(self.slots)))

    def aim_one(self, slot: int) -> None:
        """The next forward reads into one slot, as its only row."""
        self._aim((slot,))

    def _aim(self, rows: tuple[int, ...]) -> None:
        self.rows = rows
        self.places = torch.tensor(rows, device=self.device)
        self.used.clear()

    def check(self, expected: int) -> None:
        """Raises: CacheIgnored unless so many parts of the model used what is kept here."""
        if len(self.used) != expected:
            raise CacheIgnored(f"{len(self.used)} of {expected} parts of the model used their cache")


class EarRows(Rows):
    """The conformer's: the tail of the sound, of every convolution, and the keys and values that attention looks at."""

    def __init__(self, config: Any, slots: int, tail: int, like: Tensor) -> None:
        super().__init__(slots, like.device)
        self.left = config.sliding_window - 1
        heads, width = config.num_attention_heads, config.hidden_size // config.num_attention_heads
        kept = (slots + 1, heads, self.left, width)
        self._keys = [like.new_zeros(kept) for _ in range(config.num_hidden_layers)]
        self._values = [like.new_zeros(kept) for _ in range(config.num_hidden_layers)]
        self._tails: dict[str, Tensor] = {}
        self.sound = torch.zeros(slots + 1, tail, device=like.device)
        self.last = torch.zeros(slots + 1, 1, device=like.device)
        self._ages = [0] * (slots + 1)
        self.frames = 1
        self.first: Tensor | None = None

    def forget(self, slot: int) -> None:
        """Make one slot as if it had never heard anything."""
        for store in (*self._keys, *self._values, *self._tails.values(), self.sound, self.last):
            store[slot] = 0
        self._ages[slot] = 0

    def begin(self, frames: int) -> list[int]:
        """A forward of so many frames begins; how many each of its rows has heard."""
        ages = [self._ages[row] for row in self.rows]
        # Nobody's row never counts as one that begins: it would make every step a first one.
        begins = [age == 0 and row != self.nobody for age, row in zip(ages, self.rows, strict=True)]
        self.first = torch.tensor(begins, device=self.device) if any(begins) else None
        self.frames = frames
        return ages

    def commit(self, expected: int) -> None:
        """Count what was heard. Raises: CacheIgnored, see ``check``."""
        self.check(expected)
        for row in set(self.rows):
            self._ages[row] += self.frames

    def update_attention(self, keys: Tensor, values: Tensor, layer: int) -> tuple[Tensor, Tensor]:
        """(n, heads, frames, width) behind what is kept; the last of both are kept."""
        self.used.add(("attention", layer))
        return self._behind(self._keys[layer], keys), self._behind(self._values[layer], values)

    def _behind(self, store: Tensor, new: Tensor) -> Tensor:
        whole = torch.cat((store[self.places], new), 2)
        store[self.places] = whole[:, :, -self.left :]
        return whole

    def update_tail(self, hidden: Tensor, key: str, reach: int) -> Tensor:
        """A convolution's input behind the last ``reach`` of what it had before: time is the third dimension.

        Of a slot that has heard nothing yet, the columns that lie before its first are nothing, at every stage.
        """
        self.used.add(key)
        before = hidden.shape[2] // self.frames - 1
        if self.first is not None and before:
            unheard = torch.arange(hidden.shape[2], device=hidden.device) < before
            hidden = hidden.masked_fill(self.first[:, None, None, None] & unheard[:, None], 0)
        if key not in self._tails:
            self._tails[key] = hidden.new_zeros(self.slots + 1, hidden.shape[1], reach, *hidden.shape[3:])
        store = self._tails[key]
        whole = torch.cat((store[self.places], hidden), 2)
        store[self.places] = whole[:, :, whole.shape[2] - reach :]
        return whole


class AttentionView:
    """``EarRows`` as the conformer's attention sees them."""

    def __init__(self, rows: EarRows) -> None:
        self._rows = rows

    def update(self, keys: Tensor, values: Tensor, layer_idx: int, **_: Any) -> tuple[Tensor, Tensor]:
        """Called by each layer."""
        return self._rows.update_attention(keys, values, layer_idx)


class TailView:
    """``EarRows`` as the conformer's convolutions see them."""

    def __init__(self, rows: EarRows) -> None:
        self._rows = rows

    def update(self, hidden: Tensor, cache_key: str, conv_module: Any) -> Tensor:
        """Called by each convolution."""
        return self._rows.update_tail(hidden, cache_key, conv_module.left_pad)


class MindRows(Rows):
    """The backbone's: the two states of each Mamba layer, and what each attention layer sees, ``capacity`` columns.

    When the columns are full, the oldest behind the prompt gives way: there are no positions in this model, so where a
    column lies means nothing.
    """

    def __init__(self, config: Any, slots: int, capacity: int, like: Tensor) -> None:
        super().__init__(slots, like.device)
        self.capacity = capacity
        self._kernel = config.conv_kernel
        inner = config.mamba_num_heads * config.mamba_head_dim
        channels = inner + 2 * config.n_groups * config.ssm_state_size
        state = (config.mamba_num_heads, config.mamba_head_dim, config.ssm_state_size)
        seen = (slots + 1, config.num_key_value_heads, capacity, config.head_dim)
        kinds = list(enumerate(config.layers_block_type))
        mamba = [layer for layer, kind in kinds if kind == "linear_attention"]
        attention = [layer for layer, kind in kinds if kind == "full_attention"]
        self._tails = {layer: like.new_zeros(slots + 1, channels, self._kernel) for layer in mamba}
        # Sums of a whole call do not fit into 16 bits.
        self._states = {layer: torch.zeros(slots + 1, *state, device=like.device) for layer in mamba}
        self._keys = {layer: like.new_zeros(seen) for layer in attention}
        self._values = {layer: like.new_zeros(seen) for layer in attention}
        self.parts = len(mamba) + len(attention)
        self._lengths = [0] * (slots + 1)
        self._kept = [0] * (slots + 1)
        self._columns: Tensor = self.places
        self._span = 0
        self._one: int | None = None
        self._working: dict[tuple[str, int], Tensor] = {}

    @staticmethod
    def bytes_per_slot(config: Any, capacity: int, bytes_per_number: int) -> int:
        """What one slot takes."""
        kinds = config.layers_block_type
        inner = config.mamba_num_heads * config.mamba_head_dim
        channels = inner + 2 * config.n_groups * config.ssm_state_size
        mamba = 4 * inner * config.ssm_state_size + bytes_per_number * channels * config.conv_kernel
        attention = 2 * config.num_key_value_heads * config.head_dim * capacity * bytes_per_number
        return int(kinds.count("linear_attention") * mamba + kinds.count("full_attention") * attention)

    def length(self, slot: int) -> int:
        """How many tokens and frames the slot was given."""
        return self._lengths[slot]

    def forget(self, slot: int, prompt: int = 0) -> None:
        """Make one slot as if it had never been given anything; its first ``prompt`` columns will never give way."""
        for stores in (self._tails, self._states, self._keys, self._values):
            for store in stores.values():
                store[slot] = 0
        self._lengths[slot], self._kept[slot] = 0, prompt

    # -- a forward -------------------------------------------------------------------------------------------------

    def step(self, slots: Sequence[int]) -> Tensor:
        """Prepare a step of ``slots``; the mask of attention, (slots, 1, 1, span)."""
        self.aim_all(slots)
        self._one = None
        self._working.clear()
        seen = [min(self._lengths[row] + 1, self.capacity) if row != self.nobody else 1 for row in self.rows]
        self._span = span_of(max(seen), self.capacity)
        self._columns = torch.tensor(
            [self._column(row, self._lengths[row]) if row != self.nobody else 0 for row in self.rows],
            device=self.device,
        )
        limit = torch.tensor(seen, device=self.device)[:, None]
        return (torch.arange(self._span, device=self.device) < limit)[:, None, None]

    def _column(self, slot: int, place: int) -> int:
        if place < self.capacity:
            return place
        kept = self._kept[slot]
        return kept + (place - kept) % (self.capacity - kept)

    def read(self, slot: int, count: int) -> Tensor:
        """Prepare reading ``count`` into ``slot``; the mask, (1, 1, count, span). Raises: IndexError: no room."""
        start = self._lengths[slot]
        if start + count > self.capacity:
            raise IndexError(f"{start + count} tokens and frames in a slot of {self.capacity}")
        self.aim_one(slot)
        self._one = slot
        self._working.clear()
        self._span = start + count
        self._columns = torch.arange(start, start + count, device=self.device)
        return (torch.arange(self._span, device=self.device) <= self._columns[:, None])[None, None]

    def commit(self, count: int = 1) -> None:
        """Keep what the forward brought. Raises: CacheIgnored if a part of the model did not use its memory."""
        self.check(self.parts)
        for (kind, layer), rows in self._working.items():
            (self._tails if kind == "tail" else self._states)[layer][self.places] = rows
        self._working.clear()
        for row in self.rows:
            if row != self.nobody:
                self._lengths[row] += count

    # -- what transformers call ------------------------------------------------------------------------------------

    def update(self, keys: Tensor, values: Tensor, layer_idx: int, **_: Any) -> tuple[Tensor, Tensor]:
        """Called by each attention layer with (n, heads, new, width); the answer is all that the slots see."""
        self.used.add(layer_idx)
        return self._put(self._keys[layer_idx], keys), self._put(self._values[layer_idx], values)

    def _put(self, store: Tensor, found: Tensor) -> Tensor:
        if self._one is not None:
            store[self._one, :, self._columns] = found[0].to(store.dtype)
            return store[self._one : self._one + 1, :, : self._span]
        store[self.places, :, self._columns] = found[:, :, 0].to(store.dtype)
        return store[: self.slots, :, : self._span]

    def get_conv_state(self, layer_idx: int, state_idx: int = 0) -> Tensor:
        """The tails of the aimed rows, to be changed in place."""
        return self._work("tail", layer_idx, self._tails[layer_idx])

    def get_recurrent_state(self, layer_idx: int, state_idx: int = 0) -> Tensor:
        """The states of the aimed rows, to be changed in place."""
        self.used.add(layer_idx)
        return self._work("state", layer_idx, self._states[layer_idx])

    def _work(self, kind: str, layer: int, store: Tensor) -> Tensor:
        key = (kind, layer)
        if key not in self._working:
            self._working[key] = store[self.places]
        return self._working[key]

    def update_conv_state(self, states: Tensor, layer_idx: int, state_idx: int = 0, **_: Any) -> Tensor:
        """New input of a convolution behind what it had; the last of it is kept."""
        tail = self.get_conv_state(layer_idx)
        whole = torch.cat((tail, states.to(tail.dtype)), -1)
        tail.copy_(whole[..., -self._kernel :])
        return whole

    def update_recurrent_state(self, states: Tensor, layer_idx: int, state_idx: int = 0, **_: Any) -> Tensor:
        """Keep a state."""
        return self.get_recurrent_state(layer_idx).copy_(states)

    def is_recording_past(self, layer_idx: int) -> bool:
        """Nothing is ever taken back."""
        return False

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """How long the longest of the aimed slots is."""
        return max((self._lengths[row] for row in self.rows if row != self.nobody), default=0)


def span_of(most: int, capacity: int) -> int:
    """How many columns attention looks at when the longest slot has ``most``: few lengths, so that few are planned."""
    span = 256
    while span < most:
        span *= 2
    return min(span, capacity)
