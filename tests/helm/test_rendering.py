"""Every values file renders with both helms, and Kubernetes and the operators would take what comes out."""

from __future__ import annotations

import pytest

from tests.support.kubernetes.chart import CASES, CHART, HELMS, MINORS, case, of_kind, render, rendered, run, tool
from tests.support.kubernetes.findings import name
from tests.support.kubernetes.schemas import schema_errors

pytestmark = [pytest.mark.helm, pytest.mark.timeout(300)]


@pytest.mark.parametrize("helm", HELMS)
@pytest.mark.parametrize("values", CASES)
def test_helm_finds_nothing_to_complain_about(values: str, helm: str) -> None:
    run(tool(helm), "lint", "--strict", str(CHART), "--values", str(case(values)))


@pytest.mark.parametrize("minor", MINORS)
@pytest.mark.parametrize("values", CASES)
def test_every_kubernetes_takes_every_object(values: str, minor: int) -> None:
    made = rendered(values, minor=minor)
    wrong = [f"{name(each)}: {error}" for each in made for error in schema_errors(each, minor)]
    assert wrong == []


@pytest.mark.parametrize("minor", [MINORS[0], MINORS[-1]])
@pytest.mark.parametrize("values", [each for each in CASES if each not in ("minimal", "everything")])
def test_helm_3_and_4_make_the_same(values: str, minor: int) -> None:
    assert rendered(values, helm="helm3", minor=minor) == rendered(values, minor=minor)


@pytest.mark.parametrize("values", ["minimal", "everything"])
def test_helm_3_and_4_make_the_same_but_for_a_password_drawn_anew(values: str) -> None:
    def without_secret(helm: str) -> list[object]:
        return [each for each in rendered(values, helm=helm) if each["kind"] != "Secret"]

    assert without_secret("helm3") == without_secret("helm")


def test_a_schema_finds_what_is_wrong() -> None:
    deployment = {**of_kind(rendered("minimal"), "Deployment")[0]}
    deployment["spec"] = {**deployment["spec"], "replica": 2, "minReadySeconds": "5"}
    errors = schema_errors(deployment, 36)
    assert [each for each in errors if "replica" in each]
    assert [each for each in errors if "minReadySeconds" in each]


@pytest.mark.parametrize("helm", HELMS)
def test_without_kubernetes_own_sleep_the_pod_sleeps_by_itself(helm: str) -> None:
    old, new = (
        of_kind(render("-f", str(case("sentinel")), helm=helm, minor=minor), "Deployment")[0] for minor in (29, 30)
    )
    hooks = [each["spec"]["template"]["spec"]["containers"][0]["lifecycle"]["preStop"] for each in (old, new)]
    assert hooks == [{"exec": {"command": ["sleep", "5"]}}, {"sleep": {"seconds": 5}}]
