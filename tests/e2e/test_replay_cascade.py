"""The default model answers a recorded call again: words, sound and timing of every decision."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from duplex_es.tools import cli

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

CONVERSATION = Path(__file__).resolve().parents[1] / "corpus" / "conversation.dxlog"


def test_cascade_says_twice_the_same_on_one_machine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The recording may come from another processor, whose arithmetic rounds otherwise: what this one makes of it is

    the yardstick for the second time.
    """
    first, second = tmp_path / "first.dxlog", tmp_path / "second.dxlog"
    replay = ["log", "replay", "--model", "cascade", "--json"]
    assert cli.main([*replay, "--file", str(CONVERSATION), "-o", str(first)]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["decisions"] >= 2
    assert cli.main(["log", "verify", "--file", str(first)]) == 0
    assert cli.main(["log", "replay", "--check", "--file", str(first)]) == 0
    capsys.readouterr()
    assert cli.main([*replay, "--check", "--file", str(first), "-o", str(second)]) == 0
    assert json.loads(capsys.readouterr().out)["alike"]
    assert cli.main(["log", "diff", str(first), str(second)]) == 0
