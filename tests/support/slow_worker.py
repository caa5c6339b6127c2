"""A worker process whose model steps an engine that needs nothing and may be slow: ``python slow_worker.py STEP_MS …``.

What follows the first argument goes to the worker; the model is called ``toy``.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.support.toy_engine import ToyEngine
from workers import cli
from workers.engine.contract import Floats, Stepped
from workers.models.stepping.model import EnginePlan, SteppingModel
from workers.models.stepping.voice import Manner


class SlowEngine(ToyEngine):
    """Takes ``step_ms`` for every step of its 20 ms frames."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(options)
        self._step_s = float(options.get("step_ms", "0")) / 1000

    def step(self, slots: Sequence[int], frames: Floats) -> list[Stepped]:
        time.sleep(self._step_s)
        return super().step(slots, frames)


def make(options: Mapping[str, str]) -> SlowEngine:
    """The engine; see ``workers.engine.contract``."""
    return SlowEngine(options)


def toy_model(step_ms: str) -> SteppingModel:
    """The model, not loaded yet."""
    from tests.support.toy_model import TOY_INFO

    plan = EnginePlan(
        "tests.support.slow_worker:make",
        {"step_ms": step_ms, "slots": "4"},
        environment={"PYTHONPATH": str(Path(__file__).resolve().parents[2])},
    )
    return SteppingModel(TOY_INFO, plan, Manner())


if __name__ == "__main__":
    cli.make_model = lambda name, options: toy_model(sys.argv[1])
    sys.exit(cli.main(sys.argv[2:]))
