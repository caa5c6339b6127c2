"""What attention remembers of many turns: a row for each slot, each as long as its own turn."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor


class CacheIgnored(RuntimeError):
    """The model ran without its memory: it does not know the keyword this one was handed over by."""


class RowCache:
    """Stands where transformers expect a cache, for a forward over some slots: ``aim`` before it, ``commit`` after.

    Without a ``commit`` nothing was remembered. All memory is taken when it is made: ``capacity`` tokens a slot.
    """

    def __init__(self, config: Any, slots: int, capacity: int, like: Tensor) -> None:
        heads = config.num_key_value_heads
        width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        layers = range(config.num_hidden_layers)
        self._keys = [like.new_zeros(slots, heads, capacity, width) for _ in layers]
        self._values = [like.new_zeros(slots, heads, capacity, width) for _ in layers]
        self.capacity = capacity
        self._lengths = [0] * slots
        self._rows: Tensor = torch.zeros(0, dtype=torch.long)
        self._columns: Tensor = self._rows
        self._slots: tuple[int, ...] = ()
        self._new = self._span = 0
        self._updated = 0

    @staticmethod
    def bytes_per_token(config: Any, bytes_per_number: int) -> int:
        """What one token of one slot takes."""
        width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        return 2 * int(config.num_hidden_layers * config.num_key_value_heads * width) * bytes_per_number

    def length(self, slot: int) -> int:
        """How many tokens the slot holds."""
        return self._lengths[slot]

    def cut(self, slot: int, length: int = 0) -> None:
        """Forget what one slot holds behind ``length`` tokens."""
        self._lengths[slot] = min(length, self._lengths[slot])

    def aim(self, slots: Sequence[int], new: int) -> tuple[Tensor, Tensor]:
        """For a forward of ``new`` tokens in each of ``slots``: its mask (n, 1, new, span) and positions (n, new)."""
        device = self._keys[0].device
        self._slots, self._new, self._updated = tuple(slots), new, 0
        starts = [self._lengths[slot] for slot in slots]
        self._span = max(starts) + new
        if self._span > self.capacity:
            raise IndexError(f"{self._span} tokens in a slot of {self.capacity}")
        self._rows = torch.tensor(self._slots, device=device)
        self._columns = torch.tensor(starts, device=device)[:, None] + torch.arange(new, device=device)
        seen = torch.arange(self._span, device=device) <= self._columns[..., None]
        return seen[:, None], self._columns

    def update(self, keys: Tensor, values: Tensor, layer_idx: int, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """Called by each layer with (n, heads, new, width); the answer is all that the slots hold."""
        self._updated += 1
        return self._put(self._keys[layer_idx], keys), self._put(self._values[layer_idx], values)

    def _put(self, store: Tensor, found: Tensor) -> Tensor:
        store[self._rows[:, None], :, self._columns] = found.transpose(1, 2).to(store.dtype)
        count = len(self._slots)
        if self._slots == tuple(range(self._slots[0], self._slots[0] + count)):
            # Slots that lie together are read where they are.
            return store[self._slots[0] : self._slots[0] + count, :, : self._span]
        return store[self._rows, :, : self._span]

    def commit(self) -> None:
        """Keep what the forward brought. Raises: CacheIgnored if it brought nothing."""
        if self._updated != len(self._keys):
            raise CacheIgnored(f"{self._updated} of {len(self._keys)} layers used the cache")
        for slot in self._slots:
            self._lengths[slot] += self._new

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """How long the longest of the aimed slots is."""
        return max((self._lengths[slot] for slot in self._slots), default=0)


def keyword_of(forward: Callable[..., Any]) -> str:
    """What ``forward`` calls its cache: older versions of transformers take another name, and ignore this one."""
    return "cache" if "cache" in inspect.signature(forward).parameters else "past_key_values"
