"""``log fork``: a session in the store, and a ticket."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from duplex_es.client import DuplexClient
from duplex_es.client.ticket import ResumeTicket
from duplex_es.tools import cli
from tests.support.processes import StoreProcess

pytestmark = pytest.mark.redis

TAKEOVER = Path(__file__).resolve().parents[2] / "corpus" / "takeover.dxlog"


def test_a_fork_stands_in_the_store_with_its_origin_and_its_ticket(
    valkey: StoreProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["log", "fork", "--file", str(TAKEOVER), "--at", "30", "--id", "fork-1", "--into", valkey.url]
    assert cli.main(where) == 0
    first, *_, text = capsys.readouterr().out.splitlines()
    assert first == "fork-1#0 goes on from takeover#0 at seq 30 when a worker of scripted is free"
    ticket = ResumeTicket.from_text(text)
    assert (ticket.session_id, ticket.incarnation, ticket.after_seq, ticket.model) == ("fork-1", 0, 30, "scripted")
    assert DuplexClient.resume("ws://127.0.0.1:1", text).session_id == "fork-1"
    assert cli.main(["log", "verify", "fork-1", "--redis-url", valkey.url]) == 0
    assert cli.main(["log", "show", "fork-1", "--redis-url", valkey.url]) == 0
    assert "duplex_es.forked  of takeover#0 after seq 30" in capsys.readouterr().out
    assert cli.main(where) == 1
    assert "has a session 'fork-1' already" in capsys.readouterr().err


def test_a_fork_can_be_forked(valkey: StoreProcess, capsys: pytest.CaptureFixture[str]) -> None:
    first = ["--file", str(TAKEOVER), "--at", "30", "--id", "fork-a", "--into", valkey.url]
    assert cli.main(["log", "fork", *first]) == 0
    capsys.readouterr()
    second = ["fork-a", "--at", "14", "--id", "fork-b", "--redis-url", valkey.url, "--json"]
    assert cli.main(["log", "fork", *second]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["forked_from"] == {"session": "fork-a#0", "seq": 14}
    assert cli.main(["log", "diff", "fork-a", "fork-b", "--redis-url", valkey.url]) == 1
    assert "the log ends" in capsys.readouterr().out


def test_where_no_session_is_open_there_is_no_fork(valkey: StoreProcess, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["log", "fork", "--file", str(TAKEOVER), "--into", valkey.url, "--at"]
    assert cli.main([*words, "127"]) == 1
    assert "was over at seq 127" in capsys.readouterr().err
    assert cli.main([*words, "128"]) == 1
    assert "there is no seq 128" in capsys.readouterr().err


def test_a_seq_inside_a_decision_is_told_of(valkey: StoreProcess, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["log", "fork", "--file", str(TAKEOVER), "--at", "4", "--into", valkey.url]) == 0
    assert "seq 4 is inside a decision: the frames it lacks (2) are made again first" in capsys.readouterr().out
