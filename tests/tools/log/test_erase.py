"""``duplex-es log erase``: what it asks, what it says, what it leaves."""

from __future__ import annotations

import argparse
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from duplex_es.archive.redaction import Scope
from duplex_es.archive.sealing import OperatorKeys
from duplex_es.log.memory import MemoryLog
from duplex_es.reading.source import LiveSource
from duplex_es.tools.errors import ToolError
from duplex_es.tools.log import erase, show, verify
from duplex_es.tools.log.erase import scope_of, unix_ms
from tests.support.archives import CALLER, Shelf, archived, planted_call

pytestmark = pytest.mark.unit


def arguments(**more: Any) -> argparse.Namespace:
    known: dict[str, Any] = {
        "session": None,
        "caller": None,
        "audio": None,
        "since": None,
        "until": None,
        "reason": "",
        "by": None,
        "dry_run": False,
        "yes": False,
        "close": False,
        "rewrite_files": False,
        "archive_only": False,
        "archive": None,
        "keys": None,
        "key_file": None,
        "redis_url": "",
        "json": False,
    }
    return argparse.Namespace(**(known | more))


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> MemoryLog:
    """A store in this process, whatever URL a command opens."""
    log = MemoryLog()

    @asynccontextmanager
    async def opened(redis_url: str) -> AsyncIterator[MemoryLog]:
        yield log

    for module in ("erase", "source"):
        monkeypatch.setattr(f"duplex_es.tools.log.{module}.opened", opened)
    return log


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1700000000", 1_700_000_000_000),
        ("1700000000.25", 1_700_000_000_250),
        ("2023-11-14T22:13:20Z", 1_700_000_000_000),
        ("2023-11-14 22:13:20", 1_700_000_000_000),
        ("2023-11-14T23:13:20+01:00", 1_700_000_000_000),
    ],
)
def test_a_time_is_unix_seconds_or_iso_8601(text: str, ms: int) -> None:
    assert unix_ms(text) == ms


def test_what_is_to_go_is_all_a_speaker_or_a_span() -> None:
    assert scope_of(arguments()) is None
    assert scope_of(arguments(audio="caller")) == Scope(speaker="caller")
    assert scope_of(arguments(since="1", until="2")) == Scope(from_ms=1_000, to_ms=2_000)
    for more, said in (
        ({"since": "1"}, "both --since and --until"),
        ({"since": "3", "until": "2"}, "before --since"),
        ({"audio": "caller", "since": "1", "until": "2"}, "--audio takes"),
        ({"since": "yesterday", "until": "2"}, "is no time"),
    ):
        with pytest.raises(ToolError, match=said):
            scope_of(arguments(**more))


async def test_nothing_is_erased_without_a_yes(log: MemoryLog) -> None:
    await planted_call(log)
    with pytest.raises(ToolError, match="--yes confirms"):
        await erase.run(arguments(session="call-1"))
    assert (await log.head("call-1")).state == "closed"


async def test_one_session_or_a_caller_has_to_be_named(log: MemoryLog) -> None:
    for more in ({}, {"session": "a", "caller": "b"}):
        with pytest.raises(ToolError, match="say what to erase"):
            await erase.run(arguments(**more))
    with pytest.raises(ToolError, match="--archive-only needs --archive"):
        await erase.run(arguments(session="a", archive_only=True))


async def test_a_dry_run_says_what_would_go(log: MemoryLog, capsys: pytest.CaptureFixture[str]) -> None:
    await planted_call(log)
    assert await erase.run(arguments(session="call-1", dry_run=True)) == 0
    assert capsys.readouterr().out == "would be erased\n  call-1#0  store  everything\n"
    assert await erase.run(arguments(session="call-2", dry_run=True)) == 0
    assert capsys.readouterr().out == "nothing of it is there\n"


async def test_an_erased_session_is_shown_and_verified_as_such(
    log: MemoryLog, capsys: pytest.CaptureFixture[str]
) -> None:
    await planted_call(log)
    reading = argparse.Namespace(session="call-1", file=None, redis_url="", json=False, all=False, at=None)
    await erase.run(arguments(session="call-1", audio="caller", yes=True, by="me", reason="a wish"))
    assert "call-1#0  store  parts of" in capsys.readouterr().out
    assert await verify.run(reading) == 0
    told = capsys.readouterr().out
    assert "rules hold" in told and "by me, the caller's sound: a wish" in told
    assert await show.run(reading) == 0
    assert "the caller's sound: a wish" in capsys.readouterr().out.splitlines()[1]
    await erase.run(arguments(session="call-1", yes=True, json=True))
    assert json.loads(capsys.readouterr().out)["erased"] is True
    for command in (show, verify):
        assert await command.run(reading) == 0
        assert "call-1#0: erased" in capsys.readouterr().out


async def test_a_caller_is_erased_from_the_archive_alone(
    log: MemoryLog, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shelf = Shelf(tmp_path)
    await planted_call(log)
    await archived(log, shelf)
    key_file = tmp_path / "operator.key"
    key_file.write_text(OperatorKeys.text(bytes(range(32))))
    where = {"archive": shelf.url, "keys": str(tmp_path / "keys"), "key_file": key_file}
    await erase.run(arguments(caller=CALLER, yes=True, archive_only=True, **where))
    assert capsys.readouterr().out == "erased\n  call-1#0  archive  everything\n"
    assert await shelf.source.sessions() == []
    assert await LiveSource(log, "").find("call-1")
