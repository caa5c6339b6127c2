"""``log replay``: what it says and with which exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from duplex_es.tools import cli
from tests.support.call_files import RECORDING

pytestmark = pytest.mark.unit

CORPUS = Path(__file__).resolve().parents[2] / "corpus"
SILENCE = str(CORPUS / "silence.dxlog")


def test_a_check_says_how_much_came_out_as_recorded(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["log", "replay", "--check", "--file", str(RECORDING)]) == 0
    said = capsys.readouterr().out
    assert said.startswith("call-1#0: all 71 decisions come out as recorded: 93 facts and 174 frames")
    assert cli.main(["log", "replay", "--check", "--file", str(RECORDING), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["alike"], found["decisions"], found["divergence"]) == (True, 71, None)


def test_a_check_that_fails_names_the_place_and_ends_with_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("duplex_es.session.committing.MAX_PENDING_COMMITS", 0)
    assert cli.main(["log", "replay", "--check", "--file", SILENCE]) == 1
    said = capsys.readouterr().out
    assert "decisions come out as recorded, then they part at output 1-" in said
    assert "input_backpressure" in said
    assert cli.main(["log", "replay", "--check", "--file", SILENCE, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["divergence"]["seq"] > 1 and not found["alike"]


def test_the_same_model_gives_the_same_file_but_for_who_wrote_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new = tmp_path / "new.dxlog"
    fast = ["--model-option", "lead_ms=none"]
    assert cli.main(["log", "replay", "--model", "scripted", *fast, "--check", "--file", SILENCE, "-o", str(new)]) == 0
    assert "scripted does what was recorded, in all 14 decisions" in capsys.readouterr().out
    assert cli.main(["log", "diff", SILENCE, str(new)]) == 0
    assert capsys.readouterr().out == ""
    assert cli.main(["log", "replay", "--check", "--file", str(new)]) == 0


def test_another_model_is_compared_turn_by_turn(capsys: pytest.CaptureFixture[str]) -> None:
    fast = ["--model-option", "lead_ms=none", "--speed", "0"]
    assert cli.main(["log", "replay", "--model", "echo", *fast, "--file", SILENCE]) == 0
    said = capsys.readouterr().out
    assert "then another at output 1-1" in said and "A 'Hello.' completed" in said
    assert cli.main(["log", "replay", "--model", "echo", *fast, "--check", "--file", SILENCE, "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["divergence"]["seq"] == 1


@pytest.mark.parametrize(
    ("words", "trouble"),
    [
        ([], "say what is to answer"),
        (["--to", "ws://x", "--check"], "--model and --check are for this process"),
        (["--check", "--speed", "-1"], "--speed is a factor"),
        (["--check", "-o", "new.dxlog"], "--check alone makes no new call"),
        (["--check", "-o", SILENCE], "is there already"),
        (["--model", "scripted", "--check", "--from-seq", "3"], "--check begins at the beginning"),
        (["--model", "nobody"], "There is no model 'nobody'"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_words(
    words: list[str], trouble: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["log", "replay", "--file", SILENCE, *words]) == 1
    assert trouble in capsys.readouterr().err
