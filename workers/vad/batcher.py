"""One detector for all sessions of a worker: frames that wait at the same moment share one network call."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from .silero import SileroVad, VadState

MOST_ROWS = 32


@dataclass(slots=True)
class _Row:
    state: VadState
    frames: deque[npt.NDArray[np.float32]]
    done: asyncio.Future[list[float]]
    probabilities: list[float] = field(default_factory=list)


class VadBatcher:
    """Serves ``probabilities`` to any number of sessions from one background thread, oldest request first."""

    def __init__(self, vad: SileroVad, executor: Executor) -> None:
        """``executor`` must run one call at a time (a pool of one thread): the network is not thread-safe."""
        self._vad = vad
        self._executor = executor
        self._rows: deque[_Row] = deque()
        self._pump: asyncio.Task[None] | None = None

    async def probabilities(self, state: VadState, frames: Sequence[npt.NDArray[np.float32]]) -> list[float]:
        """One probability per frame, in order; ``state`` has moved on by that many frames when this returns.

        A state must not be in two calls at once. A caller that is cancelled leaves its state half way: reset it.
        """
        if not frames:
            return []
        done: asyncio.Future[list[float]] = asyncio.get_running_loop().create_future()
        self._rows.append(_Row(state, deque(frames), done))
        if self._pump is None or self._pump.done():
            self._pump = asyncio.create_task(self._run(), name="vad batcher")
        return await done

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while self._rows:
            batch = [self._rows.popleft() for _ in range(min(MOST_ROWS, len(self._rows)))]
            batch = [row for row in batch if not row.done.done()]
            if not batch:
                continue
            try:
                states, frames = [row.state for row in batch], [row.frames.popleft() for row in batch]
                found = await loop.run_in_executor(self._executor, self._vad.step, states, frames)
            except Exception as error:
                for row in batch:
                    if not row.done.done():
                        row.done.set_exception(error)
                continue
            for row, probability in zip(batch, found.tolist(), strict=True):
                row.probabilities.append(probability)
                if not row.frames and not row.done.done():
                    row.done.set_result(row.probabilities)
            # Unfinished rows go to the front again: a long append must not be overtaken for ever.
            self._rows.extendleft(reversed([row for row in batch if row.frames]))
