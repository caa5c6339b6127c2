"""Comparing two calls."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from duplex_es.log.api import Entry
from duplex_es.reading.dxlog import FileSource, Writer
from duplex_es.tools.log import diff
from tests.support.call_files import RECORDING

pytestmark = pytest.mark.unit


async def test_a_call_differs_where_a_word_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other.dxlog"
    with FileSource(RECORDING) as source, other.open("wb") as file:
        writer = Writer(file, source.manifest)
        for stream in ("input", "output"):
            for entry in source.entries(stream):
                body = entry.body.replace(b"Sunny", b"Rainy") if entry.id.number > 30 else entry.body
                writer.add(stream, Entry(entry.id, body, entry.audio))
        writer.finish()
    same = argparse.Namespace(a=str(RECORDING), b=str(RECORDING), redis_url="", json=False)
    assert await diff.run(same) == 0
    assert capsys.readouterr().out == ""
    assert await diff.run(argparse.Namespace(a=str(RECORDING), b=str(other), redis_url="", json=False)) == 1
    printed = capsys.readouterr().out
    assert "they part at decision" in printed and "Rainy all day." in printed
