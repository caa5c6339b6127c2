"""``duplex-es archive``."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from duplex_es.archive.sealing import OperatorKeys
from duplex_es.log.memory import MemoryLog
from duplex_es.log.observing import UNOBSERVED, LogObserver
from duplex_es.tools.archive import commands
from duplex_es.tools.cli import build_parser
from duplex_es.tools.errors import ToolError
from duplex_es.tools.probe import free_port, http_get
from tests.support.archives import ASKED, planted_call
from tests.support.call_files import RECORDING

pytestmark = pytest.mark.unit


@pytest.fixture
async def log(monkeypatch: pytest.MonkeyPatch) -> MemoryLog:
    log = MemoryLog()
    await planted_call(log)

    @asynccontextmanager
    async def opened(redis_url: str, observer: LogObserver = UNOBSERVED) -> AsyncIterator[MemoryLog]:
        yield log

    monkeypatch.setattr(commands, "opened", opened)
    return log


@pytest.fixture
async def where(tmp_path: Path) -> list[str]:
    args = argparse.Namespace(path=tmp_path / "operator.key")
    await commands.run_key(args)
    return ["--keys", str(tmp_path / "keys"), "--key-file", str(tmp_path / "operator.key")]


def parsed(words: list[str]) -> Any:
    return build_parser().parse_args(["archive", *words])


async def test_one_pass_archives_what_is_closed_and_its_words_can_be_had(
    log: MemoryLog, where: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = str(tmp_path / "archive")
    run = parsed(["run", "--once", "--to", archive, *where])
    capsys.readouterr()
    assert await run.run(run) == 0
    assert capsys.readouterr().out == "1 archived, 0 still going on, 0 failed\n"
    out = tmp_path / "words.parquet"
    index = parsed(["index", "-o", str(out), "--archive", archive, *where])
    assert await index.run(index) == 0
    rows = parquet.read_table(out).to_pylist()
    assert any(ASKED in (row["text"] or "") for row in rows)
    assert capsys.readouterr().out == f"{len(rows)} rows in {out}\n"
    with pytest.raises(ToolError, match="is there already"):
        await index.run(index)


async def test_a_key_is_its_owners_and_a_new_one_goes_in_front(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "operator.key"
    args = argparse.Namespace(path=path)
    await commands.run_key(args)
    first = path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600
    wrapped = OperatorKeys.parse(first).wrap(bytes(32), "x")
    await commands.run_key(args)
    assert path.read_text().endswith(first) and path.read_text() != first
    assert OperatorKeys.parse(path.read_text()).unwrap(wrapped, "x") == bytes(32)
    assert "in front of 1" in capsys.readouterr().out


async def test_the_archive_may_be_named_by_the_environment(
    where: list[str], log: MemoryLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    for words in (["run", "--once"], ["index", "-o", "none.parquet"]):
        with pytest.raises(ToolError, match="which archive"):
            await (args := parsed([*words, *where])).run(args)
    monkeypatch.setenv("DUPLEX_ES_ARCHIVE", "s3://calls")
    assert parsed(["run"]).archive == "s3://calls"


async def test_an_exported_call_goes_into_an_archive_once_and_not_after_it_was_erased(
    where: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    add = parsed(["add", str(RECORDING), "--to", str(tmp_path / "archive"), *where])
    capsys.readouterr()
    for _ in range(2):
        assert await add.run(add) == 0
        assert capsys.readouterr().out == "call-1#0: 206 records in 2 segments in the archive\n"
    words = ["log", "erase", "call-1", "--archive-only", "--yes", "--archive", str(tmp_path / "archive"), *where]
    erase = build_parser().parse_args(words)
    assert await erase.run(erase) == 0
    with pytest.raises(ToolError, match="call-1#0 was erased"):
        await add.run(add)


async def test_a_process_that_follows_shows_its_figures_and_its_probes_where_it_is_told_to(
    log: MemoryLog, where: list[str], tmp_path: Path
) -> None:
    port = free_port()
    words = ["run", "--every-s", "0.05", "--to", str(tmp_path / "archive"), "--health-port", str(port), *where]
    running = asyncio.create_task((args := parsed(words)).run(args))
    try:
        async with asyncio.timeout(20):
            while not await _answers(port, "/readyz", '"ready": true'):
                await asyncio.sleep(0.01)
            while not await _answers(port, "/metrics", "duplex_archive_archived_total 1.0"):
                await asyncio.sleep(0.01)
        assert await _answers(port, "/metrics", 'duplex_archive_segments_total{stream="output"} 1.0')
        assert await _answers(port, "/metrics", 'duplex_build_info{component="archive"')
        with pytest.raises(ToolError, match=f"--health-port {port} of 127.0.0.1"):
            await args.run(args)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    with pytest.raises(OSError):
        await http_get("127.0.0.1", port, "/healthz")


async def _answers(port: int, path: str, words: str) -> bool:
    try:
        status, body = await http_get("127.0.0.1", port, path)
    except OSError:
        return False
    return status == 200 and words in body


async def test_a_port_that_cannot_be_is_refused_by_its_flag(where: list[str], tmp_path: Path) -> None:
    args = parsed(["run", "--to", str(tmp_path), "--health-port", "70000", *where])
    with pytest.raises(ToolError, match="--health-port must be from 0 to 65535"):
        await args.run(args)
