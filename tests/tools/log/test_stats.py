"""The numbers of a call."""

from __future__ import annotations

import argparse
import wave
from pathlib import Path

import numpy as np
import pytest

from duplex_es.tools.log import stats
from duplex_es.tools.log.calls import read_call
from duplex_es.tools.log.dxlog import FileSource

pytestmark = pytest.mark.unit

RECORDING = Path(__file__).resolve().parents[3] / "docs" / "guides" / "call.dxlog"


def arguments(path: Path = RECORDING, **more: object) -> argparse.Namespace:
    return argparse.Namespace(session=None, file=path, redis_url="", json=False, **more)


def sounds(path: Path) -> np.ndarray:
    with wave.open(str(path)) as file:
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2").reshape(-1, file.getnchannels())
        assert file.getframerate() == 24_000
    return samples


def level(samples: np.ndarray, begin_ms: int, end_ms: int) -> float:
    return float(np.abs(samples[begin_ms * 24 : end_ms * 24].astype(int)).mean())


async def test_the_numbers_of_a_call() -> None:
    with FileSource(RECORDING) as source:
        found = stats.stats_of(await read_call(source, source.head))
    assert found["answers"] == {"completed": 2, "cancelled": 1}
    assert found["heard_before_interruption_ms"] == [1_500]
    assert (found["caller_ms"], found["assistant_ms"], found["overlap_ms"]) == (4_000, 3_900, 0)
    assert (found["turns"], found["attaches"], found["takeovers"], found["closed"]) == (3, 2, 1, "session_close")
