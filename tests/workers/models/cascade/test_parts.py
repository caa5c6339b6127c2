"""The loaded parts: on threads of their own, each warmed up once."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from tests.support.cascade import NOON, shared_parts
from tests.support.voices import spoken
from workers.models.cascade.parts import Pools, local_time
from workers.vad.silero import FRAME_SAMPLES, VadState

pytestmark = pytest.mark.unit


async def test_the_parts_hear_understand_and_speak() -> None:
    parts = shared_parts()
    speech = spoken("Hello there.")
    frames = [speech[at : at + FRAME_SAMPLES] for at in range(0, 5 * FRAME_SAMPLES, FRAME_SAMPLES)]
    assert max(await parts.speech_in(VadState(), frames)) > 0.5
    assert (await parts.understand(speech)).text.startswith("Hello there")
    assert len(await parts.pronounce("Hello.", speed=1.0, gain=1.0)) > 4000
    assert parts.clock() == NOON


def test_every_speaking_thread_is_warmed_up_once() -> None:
    warmed: list[str] = []
    pools = Pools(3, lambda: warmed.append(threading.current_thread().name))
    pools.wait()
    pools.close()
    assert len(set(warmed)) == 3


def test_a_failure_while_warming_up_is_raised() -> None:
    def break_down() -> None:
        raise OSError("no voice")

    pools = Pools(1, break_down)
    with pytest.raises(OSError, match="no voice"):
        pools.wait()
    pools.close()


def test_the_clock_knows_its_time_zone() -> None:
    assert local_time().tzinfo is not None
    assert np.isfinite(local_time().timestamp())
