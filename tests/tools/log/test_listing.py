"""Listing sessions."""

from __future__ import annotations

import argparse
import asyncio

import msgspec
import pytest

from duplex_es.log.memory import MemoryLog
from duplex_es.tools import show
from duplex_es.tools.log import listing
from tests.support.recorded import record_session

pytestmark = pytest.mark.unit


async def listed(
    monkeypatch: pytest.MonkeyPatch, log: MemoryLog, capsys: pytest.CaptureFixture[str], **filters: object
) -> list[list[str]]:
    monkeypatch.setattr(show, "open_log", lambda url, settings: log)
    wanted = {
        "model": None,
        "state": None,
        "older_than": None,
        "error": False,
        "watch": False,
        "json": False,
        **filters,
    }
    assert await listing.run(argparse.Namespace(redis_url="memory://", file=None, every_s=0.0, **wanted)) == 0
    return [line.split() for line in capsys.readouterr().out.splitlines()]


async def test_every_session_is_listed_by_name_with_where_it_stands(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = MemoryLog()
    await record_session(log, "b")
    await record_session(log, "a", claims=False)
    title, *rows = await listed(monkeypatch, log, capsys)
    assert title[0] == "SESSION"
    assert rows == [
        ["a#0", "waiting", "cascade", "gw-1/1", "-", "1-1", "0-0"],
        ["b#0", "claimed", "cascade", "gw-1/1", "worker-1/1", "1-1", "1-1"],
    ]


async def test_an_empty_store_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert await listed(monkeypatch, MemoryLog(), capsys) == [["no", "sessions"]]


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ({"state": "waiting"}, ["a#0"]),
        ({"model": "echo"}, []),
        ({"model": "cascade", "older_than": 3_600.0}, ["a#0", "b#0"]),
        ({"older_than": 1e12}, []),
        ({"error": True}, []),
    ],
)
async def test_filters_leave_what_passes_all_of_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], filters: dict[str, object], names: list[str]
) -> None:
    log = MemoryLog()
    await record_session(log, "b")
    await record_session(log, "a", claims=False)
    rows = await listed(monkeypatch, log, capsys, **filters)
    assert [row[0] for row in rows[1:]] == names if names else rows == [["no", "sessions"]]


async def watched(
    monkeypatch: pytest.MonkeyPatch, log: MemoryLog, rounds: int, *, json: bool = False, terminal: bool = False
) -> list[float]:
    """``sessions --watch`` for so many rounds: another session begins after each; the pauses it made."""
    monkeypatch.setattr(show, "open_log", lambda url, settings: log)
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal, raising=False)
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) >= rounds:
            raise asyncio.CancelledError
        await record_session(log, f"later-{len(pauses)}")

    monkeypatch.setattr(listing.asyncio, "sleep", pause)
    wanted = argparse.Namespace(
        redis_url="memory://", file=None, every_s=1.5, model=None, state=None, older_than=None, error=False, watch=True,
        json=json,
    )  # fmt: skip
    with pytest.raises(asyncio.CancelledError):
        await listing.run(wanted)
    return pauses


async def test_watching_lists_again_what_came_meanwhile_until_it_is_stopped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await watched(monkeypatch, MemoryLog(), 3) == [1.5, 1.5, 1.5]
    said = capsys.readouterr().out
    assert listing.CLEAR not in said
    first, second, third = (said.find(words) for words in ("no sessions", "later-1#0", "later-2#0"))
    assert 0 <= first < second < third
    assert said.count("SESSION") == 2 and said.count("later-1#0") == 2


async def test_watching_on_a_terminal_begins_each_round_on_a_clear_screen(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    await watched(monkeypatch, MemoryLog(), 2, terminal=True)
    assert capsys.readouterr().out.count(listing.CLEAR) == 2


async def test_watching_as_json_is_a_line_for_each_session_in_each_round(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    await watched(monkeypatch, MemoryLog(), 3, json=True)
    lines = [msgspec.json.decode(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["session"] for line in lines] == ["later-1#0", "later-1#0", "later-2#0"]
