"""What the chart makes fits together, and says to our programs what they understand."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml
from starlette.routing import Route

from duplex_es import __version__
from duplex_es.log.addresses import parse_store_url
from duplex_es.log.opening import open_log
from duplex_es.observability.catalogue import FAMILIES
from duplex_es.tools.cli import build_parser
from duplex_es.tools.probe import free_port, http_get
from gateway.app import create_app
from gateway.service import Service
from gateway.settings import read_settings as read_gateway_settings
from tests.support.kubernetes.chart import (
    CASES,
    CHART,
    HELMS,
    MINORS,
    ROOT,
    Document,
    container,
    environment,
    named,
    of_kind,
    render,
    rendered,
)
from tests.support.kubernetes.findings import PATHS, findings, pod_of
from workers.deployments import read_deployment
from workers.health import Health
from workers.host import Host
from workers.plugins import make_model

pytestmark = [pytest.mark.helm, pytest.mark.timeout(300)]

ARCHIVE_VARIABLES = re.findall(r"DUPLEX_ES_ARCHIVE[A-Z_]*", (ROOT / "docs/reference/cli.md").read_text())
"""Those that the reference, which is generated, names."""

each_case = pytest.mark.parametrize("values", CASES)


@pytest.mark.parametrize("helm", HELMS)
@pytest.mark.parametrize("minor", [MINORS[0], MINORS[-1]])
@each_case
def test_everything_fits_together(values: str, helm: str, minor: int) -> None:
    assert findings(rendered(values, helm=helm, minor=minor)) == []


def test_the_chart_runs_the_version_it_comes_with() -> None:
    held = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert held["appVersion"] == __version__
    assert all(
        each["spec"]["template"]["spec"]["containers"][0]["image"].endswith(f":{__version__}") for each in _own("gpu")
    )


def _own(values: str) -> list[Document]:
    return of_kind(rendered(values), "Deployment")


@each_case
def test_gateways_start_with_what_they_are_told(values: str, tmp_path: Path) -> None:
    """Their own reader of settings takes every variable and flag of the pod."""
    gateway = named(rendered(values), "Deployment", "-gateway")
    variables = {key: value for key, value in environment(gateway).items() if isinstance(value, str)}
    token = tmp_path / "token"
    token.write_text("0123456789abcdef")
    if "DUPLEX_ES_OPERATOR_TOKEN_FILE" in variables:
        variables["DUPLEX_ES_OPERATOR_TOKEN_FILE"] = str(token)
    settings = read_gateway_settings(container(gateway).get("args", []), variables)
    assert settings.port == 8099
    assert settings.host == "0.0.0.0"


@each_case
def test_workers_can_read_their_deployment_file(values: str, tmp_path: Path) -> None:
    files = [each for each in of_kind(rendered(values), "ConfigMap") if "deployment.toml" in each["data"]]
    assert files
    for held in files:
        path = tmp_path / f"{held['metadata']['name']}.toml"
        path.write_text(held["data"]["deployment.toml"])
        found = read_deployment(path)
        assert found["model"]
        assert found["drain_s"] == 20.0


async def test_probes_ask_for_what_is_served() -> None:
    """The paths that the checks hold probes to are those that the programs answer."""
    service = Service(read_gateway_settings([], {}), open_log("memory://"))
    assert PATHS["gateway"] <= {route.path for route in create_app(service).routes if isinstance(route, Route)}
    worker, port = Health(Host(open_log("memory://"), make_model("echo", {}), worker="w", slots=1)), free_port()
    await worker.start("127.0.0.1", port)
    try:
        answers = {path: (await http_get("127.0.0.1", port, path))[0] for path in (*PATHS["worker"], "/nothing")}
    finally:
        await worker.stop()
    assert {path for path, status in answers.items() if status == 404} == {"/nothing"}


def test_options_and_files_of_secrets_reach_the_model() -> None:
    made = rendered("everything")
    bridge = named(made, "ConfigMap", "-worker-bridge")
    assert tomllib.loads(bridge["data"]["deployment.toml"])["options"] == {
        "url": "ws://omni:8091/v1/realtime",
        "served": "Qwen/Qwen3-Omni",
        "secret_file": "/etc/duplex-es/options/secret_file/value",
    }
    pod = named(made, "Deployment", "-worker-bridge")["spec"]["template"]["spec"]
    mounts = {each["mountPath"]: each["name"] for each in pod["containers"][0]["volumeMounts"]}
    volumes = {each["name"]: each for each in pod["volumes"]}
    held = volumes[mounts["/etc/duplex-es/options/secret_file"]]["secret"]
    assert (held["secretName"], held["items"]) == ("bridge-seal", [{"key": "seal", "path": "value"}])


@pytest.mark.parametrize(
    ("values", "kind", "files"),
    [
        ("minimal", "server", {"password_file"}),
        ("sentinel", "sentinel", {"password_file", "sentinel_password_file"}),
        ("cluster-tls", "cluster", {"password_file", "ssl_ca_certs", "ssl_certfile", "ssl_keyfile"}),
    ],
)
def test_the_url_of_the_store_says_what_the_pod_mounts(values: str, kind: str, files: set[str], tmp_path: Path) -> None:
    for workload in _own(values):
        url = environment(workload)["DUPLEX_ES_REDIS_URL"]
        arguments = {key: value[0] for key, value in parse_qs(urlsplit(url).query).items()}
        held = {key: value for key, value in arguments.items() if value.startswith("/")}
        assert held.keys() == files
        sources = next(each for each in workload["spec"]["template"]["spec"]["volumes"] if each["name"] == "store")
        mounted = {
            f"/etc/duplex-es/store/{item['path']}"
            for source in sources["projected"]["sources"]
            for item in source["secret"]["items"]
        }
        assert set(held.values()) == mounted
        there = tmp_path / "password"
        there.write_text("secret\n")
        for key in held.keys() & {"password_file", "sentinel_password_file"}:
            url = url.replace(held[key].replace("/", "%2F"), str(there))
        assert parse_store_url(url).kind == kind


def test_the_archive_is_run_as_its_command_line_is_read() -> None:
    archive = named(rendered("everything"), "Deployment", "-archive")
    held = container(archive)
    assert held["command"] == ["duplex-es", "archive", "run"]
    variables = environment(archive)
    read = build_parser().parse_args([*held["command"][1:], *held["args"], "--to", variables["DUPLEX_ES_ARCHIVE"]])
    assert (read.every_s, read.keep_all, read.open, read.clear_text) == (0.5, True, True, False)
    assert variables["DUPLEX_ES_ARCHIVE_KEYS"] == "/archive/keys"
    (port,) = held["ports"]
    assert int(variables["DUPLEX_ES_HEALTH_PORT"]) == port["containerPort"]
    for probe, path in (("readinessProbe", "/readyz"), ("livenessProbe", "/healthz")):
        assert held[probe]["httpGet"] == {"path": path, "port": port["name"]}
    monitor = named(rendered("everything"), "PodMonitor", "-archive")
    assert monitor["spec"]["podMetricsEndpoints"][0]["port"] == port["name"]
    labels = monitor["spec"]["selector"]["matchLabels"].items()
    assert labels <= archive["spec"]["template"]["metadata"]["labels"].items()
    (door,) = named(rendered("everything"), "NetworkPolicy", "-archive")["spec"]["ingress"]
    assert door["ports"] == [{"protocol": "TCP", "port": port["name"]}]
    assert {"DUPLEX_ES_ARCHIVE", "DUPLEX_ES_ARCHIVE_KEYS", "DUPLEX_ES_ARCHIVE_KEY_FILE"} <= set(ARCHIVE_VARIABLES)


def test_traces_go_to_one_collector_from_both() -> None:
    for tier in ("-gateway", "-worker-cascade"):
        variables = environment(named(rendered("everything"), "Deployment", tier))
        assert variables["DUPLEX_ES_OTLP_ENDPOINT"] == "http://collector:4318"


def test_no_secret_is_in_an_environment_or_a_config_map() -> None:
    made = render("--set", "valkey.enabled=true")
    (secret,) = of_kind(made, "Secret")
    for each in made:
        if each["kind"] != "Secret":
            assert "requirepass" not in str(each)
            assert secret["data"]["redis-password"] not in str(each)


def test_a_url_can_be_wholly_in_a_secret() -> None:
    made = render("--set", "redis.url.existingSecret=store,redis.url.key=where")
    for workload in of_kind(made, "Deployment"):
        assert environment(workload)["DUPLEX_ES_REDIS_URL"] == {"secretKeyRef": {"name": "store", "key": "where"}}


def test_a_rollout_takes_no_gateway_away_and_needs_no_spare_gpu() -> None:
    made = rendered("gpu")
    assert named(made, "Deployment", "-gateway")["spec"]["strategy"]["rollingUpdate"] == {
        "maxUnavailable": 0,
        "maxSurge": 1,
    }
    worker = named(made, "Deployment", "-worker-personaplex")["spec"]
    assert worker["strategy"]["rollingUpdate"] == {"maxUnavailable": 1, "maxSurge": 0}
    assert named(made, "Deployment", "-worker-minicpmo")["spec"]["strategy"] == {"type": "Recreate"}


def test_a_worker_with_gpus_goes_where_they_are() -> None:
    pod = named(rendered("gpu"), "Deployment", "-worker-personaplex")["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"nvidia.com/gpu.product": "NVIDIA-H200"}
    assert pod["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    assert pod["runtimeClassName"] == "nvidia"
    resources = pod["containers"][0]["resources"]
    assert resources["limits"]["nvidia.com/gpu"] == resources["requests"]["nvidia.com/gpu"] == 1
    volumes = {each["name"]: each for each in pod["volumes"]}
    assert volumes["models"]["persistentVolumeClaim"]["claimName"] == "models"
    assert volumes["shm"]["emptyDir"] == {"medium": "Memory", "sizeLimit": "8Gi"}
    processors = named(rendered("gpu"), "Deployment", "-worker-cascade")["spec"]["template"]["spec"]
    assert "nodeSelector" not in processors
    assert "tolerations" not in processors


def test_caches_lie_where_something_can_be_written() -> None:
    made = rendered("gpu")
    read_only = environment(named(made, "Deployment", "-worker-personaplex"))
    own = environment(named(made, "Deployment", "-worker-minicpmo"))
    assert (read_only["HF_HOME"], own["HF_HOME"]) == ("/tmp/.cache/huggingface", "/models/.cache/huggingface")
    assert named(made, "PersistentVolumeClaim", "-worker-minicpmo-models")["metadata"]["annotations"] == {
        "helm.sh/resource-policy": "keep"
    }


def test_there_is_a_budget_for_disruptions_where_there_are_several_and_only_there() -> None:
    budgets = {each["metadata"]["name"] for each in of_kind(rendered("gpu"), "PodDisruptionBudget")}
    assert budgets == {f"voice-duplex-es-{each}" for each in ("gateway", "worker-cascade", "worker-personaplex")}


def test_keda_counts_what_the_service_measures() -> None:
    made = rendered("keda")
    queries = {
        each["metadata"]["name"].removeprefix("voice-duplex-es-"): [
            (trigger["metadata"]["query"], trigger["metadata"]["threshold"], trigger["metadata"]["activationThreshold"])
            for trigger in each["spec"]["triggers"]
            if trigger["type"] == "prometheus"
        ]
        for each in of_kind(made, "ScaledObject")
    }
    pods = 'namespace="calls",pod=~"voice-duplex-es-{}-[a-z0-9]+-[a-z0-9]+"'
    assert queries["gateway"] == [(f"sum(duplex_gateway_connections{{{pods.format('gateway')}}})", "400", "0")]
    used = f'sum(duplex_worker_slots{{state="used",{pods.format("worker-cascade")}}})'
    demand = f'{used} + (max(duplex_fleet_waiting_sessions{{model="cascade",namespace="calls"}}) or vector(0))'
    assert queries["worker-cascade"] == [(demand, "6", "0"), (f"{demand} + 8", "8", "8")]
    # Only a pool that may have no workers counts workers it cannot see as none.
    assert "or vector(0)) + (max" in queries["worker-scripted"][0][0]
    assert [each["spec"]["minReplicaCount"] for each in of_kind(made, "ScaledObject")] == [2, 2, 0]


def test_a_horizontal_autoscaler_shrinks_slowly() -> None:
    made = rendered("everything")
    scaler = named(made, "HorizontalPodAutoscaler", "-gateway")["spec"]
    assert scaler["metrics"][0]["pods"]["metric"]["name"] == "duplex_gateway_connections"
    down = scaler["behavior"]["scaleDown"]
    assert (down["stabilizationWindowSeconds"], down["policies"]) == (
        600,
        [{"type": "Pods", "value": 1, "periodSeconds": 120}],
    )


@pytest.mark.parametrize(
    ("controller", "annotation", "value"),
    [
        ("nginx", "nginx.ingress.kubernetes.io/proxy-read-timeout", "3600"),
        ("haproxy", "haproxy-ingress.github.io/timeout-tunnel", "3600s"),
        ("alb", "alb.ingress.kubernetes.io/load-balancer-attributes", "idle_timeout.timeout_seconds=3600"),
    ],
)
def test_an_ingress_lets_a_socket_be_silent_for_long(controller: str, annotation: str, value: str) -> None:
    made = render(
        *("--set", "redis.host=store,gateway.ingress.enabled=true,gateway.ingress.hosts[0].host=voice.example.com"),
        *("--set", f"gateway.ingress.controller={controller}"),
    )
    (ingress,) = of_kind(made, "Ingress")
    assert ingress["metadata"]["annotations"][annotation] == value
    assert not any("affinity" in each or "sticky" in each for each in ingress["metadata"]["annotations"])


def test_a_route_has_no_end_of_its_own() -> None:
    (rule,) = of_kind(rendered("cluster-tls"), "HTTPRoute")[0]["spec"]["rules"]
    assert rule["timeouts"] == {"request": "0s", "backendRequest": "0s"}


def test_workers_are_reached_by_probes_and_metrics_alone() -> None:
    policy = named(rendered("everything"), "NetworkPolicy", "-worker-cascade")["spec"]
    assert [port["port"] for rule in policy["ingress"] for port in rule["ports"]] == ["health"]


def test_pods_are_told_apart_and_never_changed_by_labels_of_others() -> None:
    """Selectors have the three labels that never change: labels of the user are on objects and pods alone."""
    for each in rendered("everything"):
        if each["kind"] in ("Deployment", "StatefulSet"):
            assert each["spec"]["selector"]["matchLabels"].keys() == {
                f"app.kubernetes.io/{part}" for part in ("name", "instance", "component")
            }
            assert pod_of(each) is not None
            assert each["metadata"]["labels"]["team"] == "voice"


def test_a_digest_counts_more_than_a_tag() -> None:
    image = container(named(rendered("everything"), "Deployment", "-gateway"))["image"]
    assert image == "registry.example.com/voice/duplex-es-gateway@sha256:" + "a" * 64


def test_every_hook_for_things_of_ones_own_is_used_and_rendered() -> None:
    made = rendered("everything")
    gateway = named(made, "Deployment", "-gateway")
    pod = gateway["spec"]["template"]["spec"]
    assert environment(gateway)["OTEL_EXPORTER_OTLP_ENDPOINT"] == "http://collector.calls:4318"
    assert [each["name"] for each in pod["initContainers"]] == ["wait"]
    assert [each["name"] for each in pod["containers"]] == ["gateway", "proxy"]
    assert container(gateway)["envFrom"] == [{"configMapRef": {"name": "extra", "optional": True}}]
    assert named(made, "ConfigMap", "more-voice")
    assert named(made, "ConfigMap", "extra")["data"] == {"release": "voice"}


def test_every_alert_is_installed_with_its_runbook() -> None:
    (rule,) = of_kind(rendered("everything"), "PrometheusRule")
    groups = rule["spec"]["groups"]
    written = [yaml.safe_load(path.read_text()) for path in sorted((CHART / "rules").glob("*.yaml"))]
    alerts = [
        each["alert"] for held in written for group in held["groups"] for each in group["rules"] if "alert" in each
    ]
    assert alerts
    installed = {each["alert"]: each for group in groups for each in group["rules"] if "alert" in each}
    assert [*installed] == [*alerts, "Own"]
    for alert in alerts:
        assert (ROOT / "docs" / "runbooks" / f"{alert}.md").exists()
        expected = f"https://runbooks.example.com/duplex-es/{alert}.md"
        assert installed[alert]["annotations"]["runbook_url"] == expected
    # What Prometheus is to fill in is left as it is.
    assert "{{ $labels.instance }}" in str(groups)


def test_every_dashboard_is_installed_as_it_is() -> None:
    files = sorted((CHART / "dashboards").glob("*.json"))
    assert files
    held = {
        file: text
        for each in of_kind(rendered("everything"), "ConfigMap")
        if each["metadata"].get("labels", {}).get("grafana_dashboard") == "1"
        for file, text in each["data"].items()
    }
    assert {name: json.loads(text) for name, text in held.items()} == {
        path.name: json.loads(path.read_text()) for path in files
    }
    # Helm keeps a release in one Secret, of 1 MiB at most.
    assert sum(map(len, held.values())) < 700_000


def test_metrics_that_scalers_count_are_measured() -> None:
    scalers = str(
        [*of_kind(rendered("keda"), "ScaledObject"), *of_kind(rendered("everything"), "HorizontalPodAutoscaler")]
    )
    named_there = set(re.findall(r"duplex_[a-z_]+", scalers))
    assert named_there == {"duplex_gateway_connections", "duplex_worker_slots", "duplex_fleet_waiting_sessions"}
    assert named_there <= {family.name for family in FAMILIES}


@pytest.mark.parametrize("helm", HELMS)
def test_pools_and_gateways_can_be_left_out(helm: str) -> None:
    alone = render("--set", "redis.host=store,workers.cascade=null", helm=helm)
    assert [each["metadata"]["name"] for each in of_kind(alone, "Deployment")] == ["voice-duplex-es-gateway"]
    workers = render("--set", "redis.host=store,gateway.enabled=false", helm=helm)
    assert [each["metadata"]["name"] for each in of_kind(workers, "Deployment")] == ["voice-duplex-es-worker-cascade"]
    assert findings(alone) == findings(workers) == []
