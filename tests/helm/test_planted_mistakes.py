"""Mistakes of the kind people make in charts, planted one at a time: each is caught, and by the check meant for it."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.kubernetes.chart import CHART, Refused, case, render, run, tool
from tests.support.kubernetes.findings import findings, name
from tests.support.kubernetes.schemas import schema_errors

pytestmark = [pytest.mark.helm, pytest.mark.timeout(300)]


@dataclass(frozen=True, slots=True)
class Mistake:
    """What a hurried hand turns ``right`` into, in one file of the chart; ``caught`` is part of the complaint."""

    what: str
    file: str
    right: str
    wrong: str
    caught: str
    values: str = "everything"


GATEWAY, WORKER = "templates/gateway/deployment.yaml", "templates/workers/deployment.yaml"
MISTAKES = [
    Mistake(
        "a Service whose selector names another component",
        "templates/gateway/service.yaml",
        'selector:\n    {{- include "duplex-es.selector" (list $ "gateway")',
        'selector:\n    {{- include "duplex-es.selector" (list $ "gateways")',
        "selects no pod",
    ),
    Mistake(
        "a port that no container has",
        "templates/gateway/service.yaml",
        "targetPort: http\n      protocol",
        "targetPort: web\n      protocol",
        "port web is on no container",
    ),
    Mistake(
        "replicas beside an autoscaler",
        GATEWAY,
        '{{- if eq .autoscaling.mode "none" }}\n  replicas: {{ .replicas }}\n  {{- end }}',
        "replicas: {{ .replicas }}",
        "has replicas of its own",
    ),
    Mistake(
        "a root file system that can be written to",
        "values.yaml",
        "readOnlyRootFilesystem: true",
        "readOnlyRootFilesystem: false",
        "readOnlyRootFilesystem is not True",
    ),
    Mistake(
        "a grace that forgets the drain",
        "templates/_budget.tpl",
        "add (default 0 $drain.preStopSeconds) $drain.drainSeconds $drain.settleSeconds",
        "add (default 0 $drain.preStopSeconds) $drain.settleSeconds",
        "and the pod is killed after",
        "sentinel",
    ),
    Mistake(
        "a variable that the gateway does not know",
        GATEWAY,
        "DUPLEX_ES_DEFAULT_MODEL",
        "DUPLEX_ES_MODEL",
        "DUPLEX_ES_MODEL is no setting of the gateway",
    ),
    Mistake(
        "a probe of a path that is not served",
        WORKER,
        "httpGet: {path: /readyz, port: health}",
        "httpGet: {path: /ready, port: health}",
        "which the worker does not serve",
    ),
    Mistake(
        "a field one letter wrong",
        "templates/_pods.tpl",
        "topologySpreadConstraints:\n  {{- range",
        "topologySpreadConstraint:\n  {{- range",
        "'topologySpreadConstraint' was unexpected",
    ),
    Mistake(
        "a key that KEDA does not have",
        "templates/_scaling.tpl",
        "minReplicaCount:",
        "minReplicas:",
        "'minReplicas' was unexpected",
    ),
    Mistake(
        "a number where Kubernetes wants text",
        GATEWAY,
        "value: {{ .drain.drainSeconds | toString | quote }}",
        "value: {{ .drain.drainSeconds }}",
        "DUPLEX_ES_DRAIN_S is no text",
    ),
    Mistake(
        "a selector with a label that changes with every version",
        "templates/_names.tpl",
        "app.kubernetes.io/component: {{ index . 1 }}\n{{- end -}}",
        "app.kubernetes.io/component: {{ index . 1 }}\nversion: {{ $root.Chart.Version }}\n{{- end -}}",
        "field is immutable",
    ),
    Mistake(
        "a volume that is mounted and not there",
        GATEWAY,
        'include "duplex-es.store.volume" $ | trim',
        '""',
        "volume store is not there",
    ),
    Mistake(
        "a monitor of a port that the Service does not have",
        "templates/watching/monitors.yaml",
        "- port: metrics",
        "- port: http-metrics",
        "port http-metrics is on no selected Service",
    ),
    Mistake(
        "a token of the service account in every pod",
        "templates/_pods.tpl",
        "automountServiceAccountToken: false\n",
        "",
        "mounts the token of its service account",
    ),
    Mistake(
        "variables of Services, which look like settings",
        "templates/_pods.tpl",
        "enableServiceLinks: false\n",
        "",
        "gets variables of Services",
    ),
    Mistake(
        "a route to a Service of another name",
        "templates/gateway/httproute.yaml",
        'name: {{ include "duplex-es.fullname" $ }}-gateway\n          port',
        'name: {{ include "duplex-es.fullname" $ }}\n          port',
        "which is not there or has no such port",
    ),
    Mistake(
        "a budget for disruptions of pods that are not there",
        "templates/workers/pdb.yaml",
        '"component" (printf "worker-%s" $pool)',
        '"component" (printf "workers-%s" $pool)',
        "selects no pod",
    ),
    Mistake(
        "a template that does not end",
        "templates/serviceaccount.yaml",
        "{{- end }}",
        "",
        "unexpected EOF",
    ),
]


def complaints(chart: Path, values: str) -> Sequence[str]:
    """What all checks say of the chart: helm's own, schemas, what fits together, and what an upgrade would meet."""
    try:
        made = render("-f", str(case(values)), chart=chart)
        run(tool("helm"), "lint", "--strict", str(chart), "--values", str(case(values)))
    except Refused as refused:
        return [str(refused)]
    found = [f"{name(each)}: {error}" for each in made for error in schema_errors(each, 36)]
    return [*found, *findings(made), *_selectors_changed(made, values)]


def _selectors_changed(made: Sequence[dict[str, object]], values: str) -> list[str]:
    """Workloads that a release of the chart as it is could not be upgraded to."""
    before = {name(each): _selector(each) for each in render("-f", str(case(values)))}
    return [
        f"{name(each)}: spec.selector: field is immutable" for each in made if _selector(each) != before.get(name(each))
    ]


def _selector(document: dict[str, object]) -> object:
    spec = document.get("spec")
    return (
        spec.get("selector") if document["kind"] in ("Deployment", "StatefulSet") and isinstance(spec, dict) else None
    )


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.what)
def test_a_planted_mistake_is_caught(mistake: Mistake, tmp_path: Path) -> None:
    chart = tmp_path / "duplex-es"
    shutil.copytree(CHART, chart)
    path = chart / mistake.file
    right = path.read_text()
    assert mistake.right in right, "the chart has changed: plant the mistake anew"
    path.write_text(right.replace(mistake.right, mistake.wrong))
    found = complaints(chart, mistake.values)
    assert [each for each in found if mistake.caught in each], found


def test_the_chart_without_a_mistake_is_complained_about_by_none_of_these_checks() -> None:
    assert complaints(CHART, "everything") == []
