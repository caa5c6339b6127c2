"""Exported files: what is cut or is another is refused."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from duplex_es.reading.dxlog import FileSource
from duplex_es.reading.errors import ReadingError
from duplex_es.tools.log import verify
from tests.support.call_files import RECORDING
from tests.support.recorded_call import write_call

pytestmark = pytest.mark.unit


def arguments(path: Path, **more: object) -> argparse.Namespace:
    return argparse.Namespace(session=None, file=path, redis_url="", json=False, **more)


def test_the_recording_in_the_guide_is_what_this_build_records(tmp_path: Path) -> None:
    import asyncio

    asyncio.run(write_call(tmp_path / "new.dxlog"))
    with FileSource(tmp_path / "new.dxlog") as new, FileSource(RECORDING) as kept:
        assert [*new.entries("input")] == [*kept.entries("input")]
        assert [*new.entries("output")] == [*kept.entries("output")]
        assert new.chain == kept.chain


@pytest.mark.parametrize("left", [0, 7, 60, 0.3, 0.6, 0.99, -16, -1])
async def test_a_file_that_was_cut_is_refused(tmp_path: Path, left: float, capsys: pytest.CaptureFixture[str]) -> None:
    whole = RECORDING.read_bytes()
    cut = tmp_path / "cut.dxlog"
    cut.write_bytes(whole[: int(left * len(whole)) if 0 < left < 1 else int(left)])
    with pytest.raises(ReadingError):
        FileSource(cut)
    assert await verify.run(arguments(cut)) == 2
    assert "cut" in capsys.readouterr().err


def test_another_file_is_not_taken_for_one(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"RIFF" * 40)
    with pytest.raises(ReadingError, match=r"not a \.dxlog file"):
        FileSource(tmp_path / "x")
