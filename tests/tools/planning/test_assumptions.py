"""The numbers of a plan: which there are, that they are those that were measured, and how one is replaced."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from duplex_es.tools.planning.assumptions import ALIASES, COSTS, MODELS, UnknownAssumption, assumptions_for

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parents[3]
MEASURED = json.loads((ROOT / "docs/measurements/capacity.json").read_text())["medians"]
FIGURES = {
    "gateway_cpu_ms": ("gateway_cpu_ms", 1.0),
    "worker_cpu_ms": ("worker_cpu_ms", 1.0),
    "store_cpu_ms": ("store_cpu_ms", 1.0),
    "gateway_session_kb": ("gateway_kb", 1.0),
    "worker_session_kb": ("worker_kb", 1.0),
    "store_growth_kb": ("store_growth_bytes_s", 1000.0),
    "store_file_kb": ("store_file_bytes_s", 1000.0),
    "store_in_kb": ("store_in_bytes_s", 1000.0),
    "store_out_kb": ("store_out_bytes_s", 1000.0),
    "client_in_kb": ("client_in_bytes_s", 1000.0),
    "client_out_kb": ("client_out_bytes_s", 1000.0),
}


@pytest.mark.parametrize("kind", list(COSTS))
def test_the_costs_of_a_session_are_those_that_were_measured(kind: str) -> None:
    assert {one.name for one in COSTS[kind]} == set(FIGURES)
    for one in COSTS[kind]:
        name, unit = FIGURES[one.name]
        # Where callers had to wait, larger batches made them cheaper than they are.
        quick = [int(callers) for callers, row in MEASURED[kind].items() if row["round_trip_p50_ms"] < 20]
        fullest = MEASURED[kind][str(max(quick))]
        # Two digits are kept.
        assert one.value == pytest.approx(fullest[name] / unit, rel=0.05), f"{kind}: {one.name}"


@pytest.mark.parametrize("model", [*MODELS, *ALIASES])
def test_every_model_has_every_number_with_its_source(model: str) -> None:
    found = assumptions_for(model)
    assert found.keys() == assumptions_for("echo").keys()
    assert all(one.source and one.meaning and one.value >= 0 for one in found.values())


@pytest.mark.parametrize("path", sorted((ROOT / "deploy/models").glob("*.toml")), ids=lambda path: path.stem)
def test_every_deployment_file_has_a_model_that_can_be_planned(path: Path) -> None:
    assumptions_for(path.stem)


def test_a_number_can_be_replaced_and_says_so() -> None:
    found = assumptions_for("personaplex", ["sessions_per_worker=148", "headroom=0.5"])
    assert (found["sessions_per_worker"].value, found["headroom"].value) == (148, 0.5)
    assert found["headroom"].source == "given on the command line"
    assert found["gpus_per_worker"].source != "given on the command line"


@pytest.mark.parametrize(
    ("model", "replaced", "words"),
    [
        ("personaplexx", [], "known are"),
        ("echo", ["slots=3"], "there is no assumption 'slots'"),
        ("echo", ["headroom"], "a number of 0 or more"),
        ("echo", ["headroom=half"], "a number of 0 or more"),
        ("echo", ["headroom=-1"], "a number of 0 or more"),
        ("echo", ["headroom=nan"], "a number of 0 or more"),
        ("echo", ["headroom=0"], "must be above 0"),
        ("echo", ["sessions_per_worker=0"], "must be above 0"),
    ],
)
def test_what_cannot_be_planned_with_is_refused_by_name(model: str, replaced: list[str], words: str) -> None:
    with pytest.raises(UnknownAssumption, match=words):
        assumptions_for(model, replaced)
