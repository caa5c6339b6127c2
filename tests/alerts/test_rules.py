"""The rules as text: Prometheus takes them, each fires for what it is about and for nothing else, each has its page."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from duplex_es.observability.catalogue import FAMILIES
from tests.alerts.cases import CASES, Case
from tests.alerts.rules import FILES, ROOT, alerts, metrics_in

pytestmark = pytest.mark.alerts

NAMES = {family.name for family in FAMILIES} | {"process_cpu_seconds_total", "process_resident_memory_bytes"}


def test_prometheus_takes_every_rule_file() -> None:
    done = subprocess.run(["promtool", "check", "rules", *map(str, FILES)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_has_a_case_and_every_case_an_alert() -> None:
    assert set(CASES) == set(alerts())


@pytest.mark.parametrize("name", CASES)
def test_an_alert_fires_for_its_cause_and_for_nothing_else(name: str, tmp_path: Path) -> None:
    tests = [_promtool(name, CASES[name], fires=True), _promtool(name, CASES[name], fires=False)]
    file = tmp_path / "test.json"
    file.write_text(
        json.dumps({"rule_files": [str(path) for path in FILES], "evaluation_interval": "15s", "tests": tests})
    )
    done = subprocess.run(["promtool", "test", "rules", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def _promtool(name: str, case: Case, *, fires: bool) -> dict[str, object]:
    series = case.sick if fires else case.well
    firing = f'ALERTS{{alertname="{name}",alertstate="firing"}}'
    count = f"count({firing}) or vector(0)"
    return {
        "interval": "15s",
        "name": f"{name} {'fires' if fires else 'is quiet'}",
        "input_series": [{"series": one, "values": values} for one, values in series.items()],
        "promql_expr_test": [
            {
                "expr": f"({count}) > bool 0",
                "eval_time": case.at,
                "exp_samples": [{"labels": "{}", "value": int(fires)}],
            }
        ],
    }


@pytest.mark.parametrize("name", CASES)
def test_an_alert_leads_to_a_page_that_says_what_to_do(name: str) -> None:
    rule = alerts()[name]
    page = ROOT / rule["annotations"]["runbook"]
    text = page.read_text()
    assert page.stem == name and text.startswith(f"# {name}\n")
    assert "## Look at" in text and "## Do" in text
    shown = text.split("```text\n")[1].split("```")[0]
    assert shown.split() == rule["expr"].split(), "the page shows another rule than is shipped"
    assert rule["labels"]["severity"] in ("critical", "warning", "info")
    assert rule["annotations"]["summary"] and rule["annotations"]["description"]


def test_rules_ask_only_for_what_is_recorded() -> None:
    asked = {metric for rule in alerts().values() for metric in metrics_in(rule["expr"])}
    assert asked <= NAMES


def test_the_index_of_runbooks_has_them_all() -> None:
    index = (ROOT / "docs/runbooks/README.md").read_text()
    assert {name for name in alerts() if f"[{name}]({name}.md)" not in index} == set()
    assert {page.stem for page in (ROOT / "docs/runbooks").glob("Duplex*.md")} == set(alerts())
