"""The archive of a command line."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from duplex_es.archive.sealing import OperatorKeys
from duplex_es.log.memory import MemoryLog
from duplex_es.tools.errors import ToolError
from duplex_es.tools.log import diff, listing, show, stats, tail, verify
from duplex_es.tools.log.archived import KEY_VARIABLE, opened_archive, operator_keys
from tests.support.archives import OPERATOR_KEY, Shelf, archived, planted_call

pytestmark = pytest.mark.unit


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "operator.key"
    path.write_text(OperatorKeys.text(bytes(range(32))))
    return path


@pytest.fixture
async def args(tmp_path: Path, key_file: Path) -> argparse.Namespace:
    shelf = Shelf(tmp_path)
    for name in ("call-1", "call-2"):
        log = MemoryLog()
        await planted_call(log, name)
        await archived(log, shelf, name)
    return argparse.Namespace(
        archive=shelf.url,
        keys=str(tmp_path / "keys"),
        key_file=key_file,
        file=None,
        redis_url="",
        session="call-1",
        json=False,
        all=False,
        at=None,
        from_start=True,
    )


def test_the_operators_key_comes_from_a_file_or_the_environment(
    key_file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    digests = OPERATOR_KEY.digests("x")
    assert operator_keys(argparse.Namespace(key_file=key_file)).digests("x") == digests
    monkeypatch.setenv(KEY_VARIABLE, key_file.read_text())
    assert operator_keys(argparse.Namespace(key_file=None)).digests("x") == digests
    monkeypatch.delenv(KEY_VARIABLE)
    with pytest.raises(ToolError, match="--key-file"):
        operator_keys(argparse.Namespace(key_file=None))
    with pytest.raises(ToolError, match="cannot read"):
        operator_keys(argparse.Namespace(key_file=tmp_path / "none"))


async def test_an_archive_needs_to_know_where_its_keys_are(key_file: Path) -> None:
    with pytest.raises(ToolError, match="--keys"):
        async with opened_archive(argparse.Namespace(archive="x", keys=None, key_file=key_file, redis_url="")):
            raise AssertionError


async def test_every_command_that_reads_reads_an_archive(
    args: argparse.Namespace, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await verify.run(args) == 0
    assert "call-1#0: all 12 rules hold" in capsys.readouterr().out
    assert await show.run(args) == 0
    shown = capsys.readouterr().out
    assert "tell me about zirkonfarben0 please" in shown
    args.at = 40
    assert await show.run(args) == 0
    assert "'tell me about zirkonfarben0 please' completed" in capsys.readouterr().out
    assert await stats.run(args) == 0
    assert "answers 2 completed" in capsys.readouterr().out
    assert await tail.run(args) == 0
    assert capsys.readouterr().out.endswith("the session has ended\n")
    args.a, args.b = "call-1", "call-2"
    assert await diff.run(args) == 0
    listed = argparse.Namespace(
        **vars(args), model=None, state=None, older_than=None, error=False, watch=False, every_s=1.0
    )
    capsys.readouterr()
    assert await listing.run(listed) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["SESSION", "call-1#0", "call-2#0"]
