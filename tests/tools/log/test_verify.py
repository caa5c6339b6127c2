"""What ``log verify`` says of a file."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from duplex_es.log.api import Entry
from duplex_es.reading.dxlog import Damaged, FileSource, Writer
from duplex_es.tools.log import carry, verify
from tests.support.call_files import RECORDING

pytestmark = pytest.mark.unit


def arguments(path: Path, **more: object) -> argparse.Namespace:
    return argparse.Namespace(session=None, file=path, redis_url="", json=False, **more)


async def test_a_damaged_block_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with FileSource(RECORDING) as source:
        number, note = next((at, one) for at, one in enumerate(source.notes) if one.kind == "output")
    whole = bytearray(RECORDING.read_bytes())
    whole[note.offset + 60] ^= 1
    bad = tmp_path / "bad.dxlog"
    bad.write_bytes(whole)
    assert await verify.run(arguments(bad)) == 2
    assert f"block {number} (byte {note.offset}) is damaged" in capsys.readouterr().err
    with pytest.raises(Damaged, match=f"block {number}"):
        await carry.run_import(argparse.Namespace(path=bad, into=None))


async def test_an_entry_changed_by_somebody_who_repairs_checksums_breaks_the_chain(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    forged = tmp_path / "forged.dxlog"
    with FileSource(RECORDING) as source, forged.open("wb") as file:
        writer = Writer(file, source.manifest)
        for stream in ("input", "output"):
            for entry in source.entries(stream):
                writer.add(stream, entry)
        stream, entry = "output", Entry(entry.id, entry.body.replace(b"session_close", b"session_chose"))
        body = writer._pending[-1]
        writer._pending[-1] = (body[0], entry.body, *body[2:])
        writer.finish()
    assert await verify.run(arguments(forged)) == 1
    assert "breaks chain: the hash chain breaks in block" in capsys.readouterr().out
