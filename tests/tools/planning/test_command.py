"""``duplex-es plan`` as an operator runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from duplex_es.tools import cli
from duplex_es.tools.planning.assumptions import assumptions_for

pytestmark = pytest.mark.unit


def test_the_plan_is_a_table_with_all_that_it_rests_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["plan", "--sessions", "10000", "--model", "personaplex"]) == 0
    printed = capsys.readouterr().out
    assert "10,000 sessions of personaplex" in printed
    assert "1 GPU" in printed and "Gbit/s" in printed
    for name in assumptions_for("personaplex"):
        assert f"  {name} " in printed


def test_the_guide_shows_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    guide = (Path(__file__).resolve().parents[3] / "docs/guides/sizing.md").read_text()
    command, _, shown = guide.split("```console\n$ duplex-es ", 1)[1].split("```", 1)[0].partition("\n")
    assert cli.main(command.split()) == 0
    assert capsys.readouterr().out.strip("\n").startswith(shown.strip("\n"))


def test_json_has_the_plan_and_the_assumptions(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["plan", "--sessions", "500", "--model", "cascade", "--json", "--set", "price_core_hour=0.05"]
    assert cli.main(words) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["schema"] == "duplex_es.plan/1"
    assert told["plan"]["sessions"] == 500 and told["plan"]["cost_per_hour"] > 0
    given = {one["name"]: one for one in told["assumptions"]}
    assert given["price_core_hour"]["source"] == "given on the command line"
    assert given["gateway_cpu_ms"]["unit"] == "ms/s"


def test_a_wrong_assumption_is_one_line_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["plan", "--sessions", "1", "--model", "echo", "--set", "slots=4"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("duplex-es: --set slots=4: there is no assumption") and said.count("\n") == 1
