"""The life of a release with real helm, against an API server in memory: this chart and the one before.

What that server is and is not: tests/support/kubernetes/cluster.py. No real cluster has run these tests.
"""

from __future__ import annotations

import base64
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.kubernetes.chart import CASES, CHART, HELMS, PREVIOUS, Refused, case, run, tool
from tests.support.kubernetes.cluster import Cluster, Object, running
from tests.support.up import up

pytestmark = [pytest.mark.helm, pytest.mark.timeout(300)]


class Release:
    """One release in one cluster."""

    def __init__(self, helm: str, cluster: Cluster, config: Path) -> None:
        self.cluster = cluster
        self._helm = tool(helm)
        self._where = ("--kubeconfig", str(config), "--namespace", "calls")

    def helm(self, *words: str) -> str:
        """Run helm. Raises: Refused."""
        return run(self._helm, *words, *self._where)

    def install(self, *words: str, chart: Path = CHART, wait_s: int = 240) -> str:
        """A new release."""
        return self.helm("install", "voice", str(chart), "--wait", "--timeout", f"{wait_s}s", *words)

    def upgrade(self, *words: str, chart: Path = CHART) -> str:
        """Another revision."""
        return self.helm("upgrade", "voice", str(chart), "--wait", "--timeout", "240s", *words)

    def one(self, kind: str, name: str) -> Object:
        """The object of a kind whose name ends so."""
        (found,) = [each for each in self.cluster.all_of(kind) if each["metadata"]["name"].endswith(name)]
        return found


@pytest.fixture(params=HELMS)
def release(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Release]:
    """A cluster with nothing in it, with either helm."""
    with running(36, tmp_path) as (cluster, config):
        yield Release(request.param, cluster, config)


def test_a_release_lives_through_upgrade_rollback_test_and_uninstall(release: Release) -> None:
    """From the chart before to this one and back, every selector as it was."""
    release.install("-f", str(case("minimal")), chart=PREVIOUS)
    before = {each["metadata"]["name"]: each["spec"]["selector"] for each in release.cluster.all_of("Deployment")}
    release.upgrade("-f", str(case("minimal")))
    after = {each["metadata"]["name"]: each["spec"]["selector"] for each in release.cluster.all_of("Deployment")}
    assert before == after
    assert release.one("Deployment", "-gateway")["metadata"]["labels"]["helm.sh/chart"] == "duplex-es-0.2.0"
    release.helm("rollback", "voice", "1", "--wait", "--timeout", "240s")
    assert release.one("Deployment", "-gateway")["metadata"]["labels"]["helm.sh/chart"] == "duplex-es-0.1.0"
    assert "Succeeded" in release.helm("test", "voice", "--timeout", "240s")
    release.helm("uninstall", "voice", "--wait", "--timeout", "240s")
    assert release.cluster.objects == {}


@pytest.mark.parametrize("values", [each for each in CASES if each not in ("minimal",)])
def test_every_example_installs_and_upgrades_from_the_chart_before(release: Release, values: str) -> None:
    flags = ("-f", str(case(values)))
    if values in ("keda", "everything"):
        # Both use what the chart before had not.
        release.install(*flags)
    else:
        release.install(*flags, chart=PREVIOUS)
    release.upgrade(*flags)
    release.helm("uninstall", "voice", "--wait", "--timeout", "240s")


def test_the_password_of_the_bundled_store_is_made_once(release: Release) -> None:
    release.install("-f", str(case("minimal")))
    first = release.one("Secret", "-valkey")["data"]
    release.upgrade("-f", str(case("minimal")), "--set", "gateway.replicas=3")
    again = release.one("Secret", "-valkey")["data"]
    assert first == again
    password = base64.b64decode(first["redis-password"])
    assert base64.b64decode(first["access.conf"]) == b"requirepass " + password + b"\n"


def test_an_upgrade_leaves_to_an_autoscaler_what_it_decided(release: Release) -> None:
    release.install("-f", str(case("keda")))
    release.cluster.scale("voice-duplex-es-gateway", 7)
    release.upgrade("-f", str(case("keda")), "--set", "log.level=warning")
    assert release.one("Deployment", "-gateway")["spec"]["replicas"] == 7


def test_gateways_that_never_become_ready_fail_the_installation(release: Release) -> None:
    """Helm 3 counts what may be unavailable as ready: of a worker alone, which may be, it waits for nothing."""
    release.cluster.unready.add("voice-duplex-es-gateway")
    with pytest.raises(Refused):
        release.install("-f", str(case("minimal")), wait_s=3)


def test_a_model_volume_outlives_its_release(release: Release) -> None:
    release.install("-f", str(case("gpu")))
    release.helm("uninstall", "voice", "--wait", "--timeout", "240s")
    assert [each["metadata"]["name"] for each in release.cluster.all_of("PersistentVolumeClaim")] == [
        "voice-duplex-es-worker-minicpmo-models"
    ]


def test_a_key_that_was_renamed_stops_the_upgrade_with_its_new_name(release: Release) -> None:
    flags = ("-f", str(case("minimal")), "--set", "keda.prometheusAddress=http://prometheus:9090")
    release.install(*flags, chart=PREVIOUS)
    with pytest.raises(Refused, match="keda is now autoscaling"):
        release.upgrade(*flags)


def test_what_kubernetes_would_refuse_is_refused(release: Release) -> None:
    """The server of these tests says no: else they would prove nothing."""
    release.install("-f", str(case("minimal")))
    with pytest.raises(Refused, match="immutable"):
        release.upgrade("-f", str(case("minimal")), "--set", "valkey.persistence.size=99Gi")
    wrong = "extraManifests[0].apiVersion=v1,extraManifests[0].kind=ConfigMap,extraManifests[0].metadata.name=x"
    with pytest.raises(Refused, match="dat"):
        release.upgrade("-f", str(case("minimal")), "--set", f"{wrong},extraManifests[0].dat.a=b")


def test_helm_test_holds_a_session_drops_it_and_resumes_it_at_another_gateway(release: Release) -> None:
    """The pod's own script, out of its ConfigMap, against two real gateways, a worker and a store."""
    with up("scripted", gateways=2) as service:

        def ran(pod: Object, cluster: Cluster) -> bool:
            (held,) = (each for each in cluster.all_of("ConfigMap") if "session_test.py" in each["data"])
            variables = {each["name"]: each["value"] for each in pod["spec"]["containers"][0]["env"]}
            here = {"URLS": ",".join(service.urls), "MODEL": variables["MODEL"], "TIMEOUT_S": variables["TIMEOUT_S"]}
            result = subprocess.run(
                [sys.executable, "-c", held["data"]["session_test.py"]],
                env=os.environ | here,
                capture_output=True,
                text=True,
                timeout=240,
                check=False,
            )
            cluster.log_of(pod, result.stdout + result.stderr)
            return result.returncode == 0

        release.cluster.run_pod = ran
        release.install("-f", str(case("minimal")), "--set", "test.model=scripted")
        began_s = time.monotonic()
        told = release.helm("test", "voice", "--timeout", "240s", "--logs")
    first, second = (url.removeprefix("ws://") for url in service.urls)
    assert f"opened at {first}, resumed at {second}" in told
    assert "Succeeded" in told
    assert time.monotonic() - began_s < 240


def test_helm_test_fails_when_nobody_answers_and_what_it_leaves_is_in_nobodys_way(release: Release) -> None:
    release.cluster.run_pod = lambda pod, cluster: False
    release.install("-f", str(case("minimal")), chart=PREVIOUS)
    for _ in range(2):
        with pytest.raises(Refused, match="failed"):
            release.helm("test", "voice", "--timeout", "60s")
        release.upgrade("-f", str(case("minimal")))
    release.cluster.run_pod = lambda pod, cluster: True
    release.helm("test", "voice", "--timeout", "60s")
