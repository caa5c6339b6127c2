"""When the next thing is said again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from duplex_es.log.api import EntryId
from duplex_es.protocol import CommitInput
from duplex_es.reading.dxlog import FileSource
from duplex_es.tools.replay.pace import Pace, cues_in

pytestmark = pytest.mark.unit

BARGE_IN = Path(__file__).resolve().parents[2] / "corpus" / "barge_in.dxlog"


async def test_a_cue_comes_after_the_frames_that_had_been_decided_before_it() -> None:
    with FileSource(BARGE_IN) as source:
        cues = [cue async for cue in cues_in(source, source.head)]
        assert [cue.heard.id for cue in cues] == [entry.id for entry in source.entries("input")]
        commits = [cue for cue in cues if isinstance(cue.heard.said, CommitInput)]
        assert cues[0].after_seq == 0
        assert 0 < commits[0].after_seq < commits[1].after_seq < source.head.output.number
        assert [cue.after_seq for cue in cues] == sorted(cue.after_seq for cue in cues)
        later = [cue async for cue in cues_in(source, source.head, EntryId(1, 8))]
        assert later[0].heard.id == EntryId(1, 9) and later[0].after_seq == cues[9].after_seq
        assert later[0].name.startswith("1-9  ")


async def test_twice_as_fast_is_half_the_time_and_zero_is_none() -> None:
    loop = asyncio.get_running_loop()
    pace, began_s = Pace(speed=20.0), loop.time()
    for at_ms in (10_000, 10_400, 11_000):
        await pace.wait(at_ms, "", lambda _: None)
    assert 0.045 <= loop.time() - began_s < 0.9
    pace.delayed_by(0.05)
    await pace.wait(11_000, "", lambda _: None)
    assert loop.time() - began_s >= 0.095
    began_s, pace = loop.time(), Pace(speed=0)
    for at_ms in (10_000, 90_000):
        await pace.wait(at_ms, "", lambda _: None)
    assert loop.time() - began_s < 30


async def test_whoever_steps_is_told_what_comes_and_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    pressed: list[str] = []

    class Terminal:
        def readline(self) -> str:
            pressed.append("\n")
            return "\n"

    monkeypatch.setattr("sys.stdin", Terminal())
    await Pace(steps=True, asks=True).wait(0, "1-1  OpenSession", told.append)
    await Pace(steps=True).wait(0, "1-2  CommitInput", told.append)
    assert told == ["1-1  OpenSession", "1-2  CommitInput"]
    assert len(pressed) == 1
