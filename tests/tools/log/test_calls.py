"""A call out of its records."""

from __future__ import annotations

import argparse
import wave
from pathlib import Path

import numpy as np
import pytest

from duplex_es.log.api import Entry
from duplex_es.tools.log import stats
from duplex_es.tools.log.calls import read_call
from duplex_es.tools.log.dxlog import FileSource, Writer

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


async def test_expired_sound_of_the_caller_keeps_its_time(tmp_path: Path) -> None:
    mute = tmp_path / "mute.dxlog"
    with FileSource(RECORDING) as source, mute.open("wb") as file:
        whole = await read_call(source, source.head)
        writer = Writer(file, source.manifest)
        for stream in ("input", "output"):
            for entry in source.entries(stream):
                writer.add(stream, Entry(entry.id, entry.body))
        writer.finish()
    with FileSource(mute) as source:
        call = await read_call(source, source.head)
    assert sum(piece.duration_ms for piece in call.heard) == sum(piece.duration_ms for piece in whole.heard) == 4_000
    assert stats.stats_of(call)["assistant_ms"] == 3_900
