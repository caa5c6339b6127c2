"""Sessions that only look old."""

from __future__ import annotations

import numpy as np
import pytest

from workers.neural.mimi.streaming import WindowedTransformer
from workers.neural.moshi.shape import TINY
from workers.neural.personaplex.engine import make

pytestmark = [pytest.mark.neural, pytest.mark.timeout(300)]


def test_a_session_of_an_aged_engine_begins_behind_its_window_and_its_neighbours_stay_where_they_are() -> None:
    engine = make({"weights": "random", "shape": "tiny", "slots": "2", "threads": "1", "aged": "yes"})
    engine.load()
    silence = np.zeros((1, 1920), np.float32)
    for slot in (0, 1):
        for _ in engine.open(slot, {"session_id": f"sess_{slot}", "incarnation": 0}, b""):
            pass
        assert len(engine.step([slot], silence)[0].pcm) == 3840
    position = engine.parts.beat.stepper.position.tolist()
    assert position == [TINY.window + 8] * 2
    windows = [layer for layer in engine.parts.beat.codec.layers if isinstance(layer, WindowedTransformer)]
    assert all(int(layer.position.min()) > 1000 for layer in windows)
    assert all(float(ring.keys.abs().mean()) > 0.5 for ring in engine.parts.beat.stepper.rings)
