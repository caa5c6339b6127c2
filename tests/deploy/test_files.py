"""What deploy/ holds, looked at by the programs that will read it: none of it may only look right.

``make deploy-check`` brings the linters of the package index; haproxy, nginx, promtool, systemd-analyze are Debian's.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
import yaml

pytestmark = pytest.mark.deploy

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
COMPOSE = DEPLOY / "compose/compose.yaml"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def program(name: str) -> str:
    """Where a program is. Fails the test, with what to do, when it is nowhere."""
    tools = ROOT / os.environ.get("DUPLEX_ES_TOOLS", ".tools")
    for place in (tools / "bin" / name, tools / "venv/bin" / name, Path(sys.executable).with_name(name)):
        if place.exists():
            return str(place)
    found = shutil.which(name)
    if found is None:
        pytest.fail(f"{name} is not here: make deploy-check, or apt-get install haproxy nginx-light prometheus systemd")
    return found


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """One program, its output kept."""
    return subprocess.run(
        words, capture_output=True, text=True, check=False, env={**os.environ, **environment}, timeout=240
    )


# -- images --------------------------------------------------------------------------------------------------------

RECIPES = sorted((DEPLOY / "docker").glob("*.Dockerfile"))


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_hadolint_finds_nothing(recipe: Path) -> None:
    found = run(program("hadolint"), str(recipe))
    assert found.returncode == 0, found.stdout


def test_hadolint_would_find_something(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM python:latest\nRUN cd /tmp && pip install redis\n")
    assert run(program("hadolint"), str(tmp_path / "Dockerfile")).returncode != 0


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_an_image_is_pinned_by_an_argument_and_runs_as_nobody(recipe: Path) -> None:
    text = recipe.read_text()
    assert text.count("FROM ${BASE}") + text.count("FROM runtime") == len(re.findall(r"^FROM ", text, re.M)), "one base"
    final = text.rsplit("\nFROM ", 1)[1]
    for line in ("USER 10001:10001", "HEALTHCHECK", "STOPSIGNAL SIGTERM", 'ENTRYPOINT ["duplex-es-'):
        assert line in final, line
    for label in ("title", "description", "licenses", "version", "revision", "created", "base.name"):
        assert f"org.opencontainers.image.{label}=" in final, label
    assert "duplex-es.sbom.path" in final and "sbom.py" in text
    extras = re.search(r"^ARG EXTRAS=(\S+)$", text, re.M)
    assert extras is not None and set(extras[1].split(",")) <= set(PROJECT["optional-dependencies"])


def test_only_what_images_need_reaches_the_builder() -> None:
    lines = (ROOT / ".dockerignore").read_text().split("\n")
    assert "*" in lines
    assert {line[1:].rstrip("/") for line in lines if line.startswith("!")} == {
        "pyproject.toml", "README.md", "LICENSE", "NOTICE", "licenses", "duplex_es", "gateway", "workers", "deploy",
    }  # fmt: skip


def test_the_versions_of_the_images_fit_the_project() -> None:
    checked = run(sys.executable, str(ROOT / "ci/image_constraints.py"), "--check")
    assert checked.returncode == 0, checked.stderr


def test_the_bill_of_materials_names_what_is_installed() -> None:
    script = str(DEPLOY / "docker/sbom.py")
    first, second = (run(sys.executable, script, "trial", "1.0", sys.prefix).stdout for _ in range(2))
    assert first == second
    bill = json.loads(first)
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")
    found = {part["name"]: part for part in bill["components"]}
    assert found["msgspec"]["purl"] == f"pkg:pypi/msgspec@{found['msgspec']['version']}"
    assert found["msgspec"]["licenses"]
    assert len({part["bom-ref"] for part in bill["components"]}) == len(bill["components"])
    assert run(sys.executable, script, "trial", "1.0", "/nowhere").returncode != 0


@pytest.mark.parametrize(("status", "code"), [(200, 0), (503, 1), (None, 1)])
def test_the_health_check_says_what_readyz_says(status: int | None, code: int) -> None:
    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/readyz" and status else 404)
            self.end_headers()
            self.wfile.write(b'{"ready": false, "reason": "the gateway is stopping"}')

        def log_message(self, *words: object) -> None:
            """Quietly."""

    server = HTTPServer(("127.0.0.1", 0), Answer)
    port = str(server.server_port)
    if status is None:
        server.server_close()
    else:
        Thread(target=server.handle_request, daemon=True).start()
    script = str(DEPLOY / "docker/healthcheck.py")
    asked = run(sys.executable, script, DUPLEX_ES_HEALTH_PORT=port, DUPLEX_ES_PORT="1")
    assert asked.returncode == code, asked.stderr
    assert ("stopping" in asked.stderr) == (status == 503) and ("nothing answers" in asked.stderr) == (status is None)
    server.server_close()


# -- compose -------------------------------------------------------------------------------------------------------

SET = {"VALKEY_PASSWORD": "one", "GRAFANA_PASSWORD": "two"}


def test_the_compose_file_fits_the_schema() -> None:
    checked = run(program("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", str(COMPOSE))
    assert checked.returncode == 0, checked.stdout


def test_the_schema_would_refuse_a_misspelt_key(tmp_path: Path) -> None:
    wrong = tmp_path / "compose.yaml"
    wrong.write_text(COMPOSE.read_text().replace("stop_grace_period", "stop_grace_perio"))
    checked = run(program("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", str(wrong))
    assert checked.returncode != 0


def test_compose_lint_finds_nothing_serious() -> None:
    checked = run(program("compose-lint"), str(COMPOSE), NO_COLOR="1")
    assert checked.returncode == 0, checked.stdout


def services() -> dict[str, dict]:
    """The services, anchors resolved."""
    return yaml.safe_load(COMPOSE.read_text())["services"]


def test_every_service_is_hardened_and_bounded() -> None:
    for name, service in services().items():
        assert service["read_only"] and service["cap_drop"] == ["ALL"], name
        assert "no-new-privileges:true" in service["security_opt"], name
        assert service["mem_limit"] and service["pids_limit"], name
        # Nobody else's machine may reach what is published.
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", [])), name


def test_what_compose_mounts_is_there() -> None:
    for name, service in services().items():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            if source.startswith("."):
                assert (COMPOSE.parent / source).resolve().exists(), f"{name} mounts {source}"


def test_a_missing_password_is_an_error() -> None:
    text = COMPOSE.read_text()
    assert "VALKEY_PASSWORD:?" in text and "GRAFANA_PASSWORD:?" in text
    assert (COMPOSE.parent / "env.example").read_text().count("PASSWORD=\n") == 2


def seconds(text: str) -> int:
    """A compose duration in whole seconds."""
    return int(text.removesuffix("s"))


def test_grace_periods_are_longer_than_drains() -> None:
    settings = (ROOT / "docs/reference/settings.md").read_text()
    gateway_s, worker_s = (
        float(found) for found in re.findall(r"`--drain-s` \| `DUPLEX_ES_DRAIN_S` \| `([\d.]+)`", settings)
    )
    assert seconds(services()["gateway-1"]["stop_grace_period"]) >= gateway_s + 5 + 5
    assert seconds(services()["worker-1"]["stop_grace_period"]) >= worker_s + 10
    for name, drain_s in (("gateway", gateway_s + 10), ("worker", worker_s + 10)):
        unit = (DEPLOY / f"systemd/duplex-es-{name}@.service").read_text()
        found = re.search(r"^TimeoutStopSec=(\d+)$", unit, re.M)
        assert found is not None and int(found[1]) >= drain_s, name


def test_settings_in_compose_and_units_exist() -> None:
    pages = (ROOT / "docs/reference/settings.md", ROOT / "docs/reference/cli.md")
    known = {name for page in pages for name in re.findall(r"\bDUPLEX_ES_\w+", page.read_text())}
    used = {name for service in services().values() for name in service.get("environment", {}) if "DUPLEX_ES" in name}
    for path in (*DEPLOY.glob("systemd/*"), *DEPLOY.glob("docker/*.Dockerfile")):
        used |= set(re.findall(r"\b(DUPLEX_ES_\w+)=", path.read_text()))
    assert used <= known, used - known


# -- load balancers ------------------------------------------------------------------------------------------------


def here(text: str) -> str:
    """A configuration whose names can be resolved on this machine."""
    text = re.sub(r"gateway-1:8099", "127.0.0.1:8099", text)
    return re.sub(r"gateway-2:8099", "127.0.0.2:8099", text)


def test_haproxy_takes_its_file_without_a_warning(tmp_path: Path) -> None:
    (tmp_path / "haproxy.cfg").write_text(here((DEPLOY / "haproxy/haproxy.cfg").read_text()))
    checked = run(program("haproxy"), "-c", "-f", str(tmp_path / "haproxy.cfg"))
    assert checked.returncode == 0 and "WARNING" not in checked.stderr, checked.stderr


def test_nginx_takes_its_file(tmp_path: Path) -> None:
    text = here((DEPLOY / "nginx/nginx.conf").read_text()).replace("/tmp/", f"{tmp_path}/")
    (tmp_path / "nginx.conf").write_text(text)
    checked = run(program("nginx"), "-t", "-c", str(tmp_path / "nginx.conf"))
    assert checked.returncode == 0, checked.stderr


def test_neither_gives_up_a_socket_that_is_quiet_between_two_pings() -> None:
    ping_s = 10.0 + 18.0
    haproxy = (DEPLOY / "haproxy/haproxy.cfg").read_text()
    nginx = (DEPLOY / "nginx/nginx.conf").read_text()
    tunnel = re.search(r"timeout tunnel (\d+)h", haproxy)
    assert tunnel is not None and int(tunnel[1]) * 3600 > ping_s
    assert {int(hours) * 3600 > ping_s for hours in re.findall(r"proxy_(?:read|send)_timeout (\d+)h", nginx)} == {True}
    # It would end the calls of a gateway that drains.
    assert not re.search(r"^\s*[^#\n]*on-marked-down", haproxy, re.M)
    assert "max_fails=0" in nginx and "sticky" not in haproxy + nginx


# -- systemd -------------------------------------------------------------------------------------------------------

UNITS = sorted((DEPLOY / "systemd").glob("*.service"))


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.stem)
def test_systemd_takes_a_unit_without_a_word(unit: Path, tmp_path: Path) -> None:
    # The programs are not installed here; an instance is named as an administrator would.
    copy = tmp_path / unit.name.replace("@", "@one")
    copy.write_text(re.sub(r"/opt/duplex-es/bin/\S+", "/bin/true", unit.read_text()))
    checked = run(program("systemd-analyze"), "verify", str(copy))
    assert (checked.stdout + checked.stderr).strip() == "", "systemd-analyze verify says 0 whatever it finds"


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.stem)
def test_a_unit_is_exposed_little(unit: Path) -> None:
    checked = run(program("systemd-analyze"), "security", "--offline=yes", "--threshold=20", str(unit))
    assert checked.returncode == 0, checked.stdout[-600:]


# -- what watches --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["prometheus.yml", "local.yml"])
def test_prometheus_takes_its_file(name: str) -> None:
    checked = run(program("promtool"), "check", "config", str(DEPLOY / "prometheus" / name))
    assert checked.returncode == 0, checked.stderr


def test_prometheus_asks_every_process_of_the_compose_file() -> None:
    jobs = yaml.safe_load((DEPLOY / "prometheus/prometheus.yml").read_text())["scrape_configs"]
    targets = {target.split(":")[0] for job in jobs for group in job["static_configs"] for target in group["targets"]}
    assert {name for name in services() if name.startswith(("gateway", "worker"))} <= targets


def test_grafana_finds_its_source_and_its_folder() -> None:
    provisioning = DEPLOY / "grafana/provisioning"
    (source,) = yaml.safe_load((provisioning / "datasources/prometheus.yaml").read_text())["datasources"]
    assert source["url"] == "http://prometheus:9090" and source["isDefault"]
    (provider,) = yaml.safe_load((provisioning / "dashboards/duplex-es.yaml").read_text())["providers"]
    mounts = services()["grafana"]["volumes"]
    assert any(mount.split(":")[1] == provider["options"]["path"] for mount in mounts)
