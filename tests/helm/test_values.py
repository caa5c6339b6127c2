"""Wrong values are refused with a sentence that names key and rule; what is generated from values is current."""

from __future__ import annotations

import json
import subprocess
import sys

import jsonschema
import pytest
import yaml

from tests.support.kubernetes.chart import CASES, CHART, HELMS, ROOT, case, refusal

pytestmark = [pytest.mark.helm, pytest.mark.timeout(300)]

STORE = "redis.host=store"

MISTYPED = [
    ("gateway.replica=2", "gateway", "replica"),
    ("gateway.replicas=two", "gateway", "replicas"),
    ("gateway.replicas=0", "gateway", "replicas"),
    ("redis.mode=sentinels", "redis", "mode"),
    ("redis.port=70000", "redis", "port"),
    ("redis.sentinel.nodes[0]=a:b:c", "redis", "sentinel"),
    ("gateway.settings.stall_ms=3", "settings", "stall_ms"),
    ("gateway.settings.drain_s=3", "settings", "drain_s"),
    ("gateway.settings.durability=strict", "settings", "durability"),
    ("workers.cascade.settings.slots=3", "settings", "slots"),
    ("workers.cascade.slots=0", "cascade", "slots"),
    ("workers.Cascade.model=cascade", "match", "Cascade"),
    ("workers.cascade.gpu.count=many", "gpu", "count"),
    ("workers.cascade.strategy.type=Replace", "strategy", "type"),
    ("workers.cascade.modelCache.accessModes[0]=RWO", "modelCache", "accessModes"),
    ("workers.cascade.autoscaling.targetUtilization=80", "autoscaling", "targetUtilization"),
    ("gateway.image.digest=sha256:short", "image", "digest"),
    ("gateway.drain.settleSeconds=2", "drain", "settleSeconds"),
    ("gateway.ingress.controller=apache", "ingress", "controller"),
    ("gateway.pdb.maxUnavailable=half", "pdb", "maxUnavailable"),
    ("log.level=loud", "log", "level"),
    ("durability.level=forever", "durability", "level"),
    ("metrics.interval=often", "metrics", "interval"),
    ("redis.auth.password=secret", "redis", "password"),
]

TOGETHER = [
    ("gateway.replicas=2", "no store: set redis.host"),
    ("redis.mode=sentinel,redis.host=store", "redis.mode is sentinel, which needs redis.sentinel.nodes"),
    ("redis.mode=cluster,redis.host=store", "redis.mode is cluster, which needs redis.cluster.nodes"),
    ("redis.sentinel.nodes[0]=a,redis.sentinel.service=s", "redis.mode is standalone, which needs redis.host"),
    ("redis.mode=cluster,redis.cluster.nodes[0]=a,redis.database=3", "redis.database must be 0 in a cluster"),
    (f"{STORE},valkey.enabled=true", "which is it? Set one of the two"),
    (f"{STORE},redis.tls.enabled=true,redis.tls.existingSecret=t,redis.tls.certKey=c", "belong together"),
    (f"{STORE},workers.other.slots=2", "workers.other.model is empty"),
    (f"{STORE},workers.cascade.autoscaling.mode=keda", "which needs autoscaling.prometheusAddress"),
    (
        f"{STORE},gateway.autoscaling.mode=hpa,gateway.autoscaling.minReplicas=20",
        "minReplicas 20 is more than maxReplicas",
    ),
    (
        f"{STORE},workers.cascade.autoscaling.mode=hpa,workers.cascade.autoscaling.minReplicas=0",
        "only keda can go to 0",
    ),
    (f"{STORE},workers.cascade.model=a/b,workers.cascade.autoscaling.mode=hpa", "no such value of a label. Use keda"),
    (f"{STORE},archive.enabled=true", "archive.enabled needs archive.to"),
    (f"{STORE},archive.enabled=true,archive.to=s3://calls", "what is archived is sealed"),
    (f"{STORE},gateway.ingress.enabled=true", "needs gateway.ingress.hosts"),
    (f"{STORE},gateway.httpRoute.enabled=true", "needs gateway.httpRoute.parentRefs"),
    (f"{STORE},gateway.strategy.rollingUpdate.maxSurge=0", "no rollout could begin"),
    (f"{STORE},gateway.metricsPort=8099", "metrics are kept away from clients"),
    (f"{STORE},gateway.operator.existingSecret=o", "gateway.pages.enabled is false"),
    (
        f"{STORE},workers.cascade.modelCache.enabled=true,workers.cascade.modelCache.readOnly=true",
        "a new volume is empty",
    ),
    (
        f"{STORE},gateway.terminationGracePeriodSeconds=20",
        "preStopSeconds 5 + drainSeconds 10 + settleSeconds 10 = 25 seconds: the pod would be killed with calls in it",
    ),
    (
        f"{STORE},workers.cascade.drain.drainSeconds=600,workers.cascade.terminationGracePeriodSeconds=60",
        "at least 615",
    ),
    (f"{STORE},keda.prometheusAddress=http://p", "keda is now autoscaling: rename the key"),
    (
        f"{STORE},fullnameOverride={'n' * 40},autoscaling.prometheusAddress=http://p,workers.cascade.autoscaling.mode=keda",
        "47 is the most",
    ),
]


@pytest.mark.parametrize("helm", HELMS)
@pytest.mark.parametrize(("setting", "where", "key"), MISTYPED, ids=[each[0] for each in MISTYPED])
def test_a_wrong_value_is_refused_with_its_key(setting: str, where: str, key: str, helm: str) -> None:
    said = refusal("--set", STORE, "--set", setting, helm=helm)
    assert "don't meet the specifications of the schema" in said
    assert where in said
    assert key in said


@pytest.mark.parametrize("helm", HELMS)
@pytest.mark.parametrize(("settings", "sentence"), TOGETHER, ids=[each[0] for each in TOGETHER])
def test_values_that_are_wrong_together_are_refused_with_a_sentence(settings: str, sentence: str, helm: str) -> None:
    assert sentence in refusal("--set", settings, helm=helm)


def test_the_chart_can_be_part_of_another() -> None:
    """A parent sets ``global`` and its condition: a schema that refused them would refuse every parent."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    jsonschema.validate({**values, "enabled": True, "global": {**values["global"], "theirs": 1}}, schema)


@pytest.mark.parametrize("values", CASES)
def test_examples_hold_to_the_schema_as_editors_read_it(values: str) -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    jsonschema.Draft7Validator.check_schema(schema)
    jsonschema.Draft7Validator(schema).validate(yaml.safe_load(case(values).read_text()))


def test_schema_and_readme_are_those_of_the_values() -> None:
    """Among them: what ``settings`` takes is what gateway and worker have."""
    ran = subprocess.run(
        [sys.executable, "ci/helm_chart.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
