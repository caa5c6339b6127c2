"""A toy whose weights outlive its process, and which can wait beside another one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tests.support.toy_engine import ToyEngine
from workers.engine.holding import Holding

MARK = "the toy's weights"
CELLS = 100_000


class KeepingEngine(ToyEngine):
    """Says in ``facts.device`` whether its weights were filled or found, and what it did before it was to load."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(options)
        self._holding: Holding | None = None
        self._did = "came unprepared"

    def hold(self, holding: Holding) -> None:
        self._holding = holding

    def prepare(self) -> None:
        found = self._holding is not None and self._holding.find("weights") is not None
        self._did = "saw weights" if found else "saw none"

    def load(self) -> None:
        super().load()
        self.facts = replace(self.facts, device=f"{self._did}, {self._weights()}")

    def _weights(self) -> str:
        if self._holding is None:
            return "has its own"
        block = self._holding.find("weights")
        if block is not None and block.mark == MARK:
            assert (np.frombuffer(block.view, np.int64) == np.arange(CELLS)).all()
            return "found them"
        block = self._holding.make("weights", 8 * CELLS, "cpu")
        np.frombuffer(block.view, np.int64)[:] = np.arange(CELLS)
        self._holding.mark("weights", MARK)
        return "filled them"
