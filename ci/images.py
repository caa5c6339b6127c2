"""Builds the images, looks at them, runs them all together and holds a conversation: ``python ci/images.py``.

Needs root, buildah, podman, runc and podman-compose. Images and their store stay under ``--store`` for the next run;
nothing of the machine's own engine is touched. Where no registry answers, the base comes from Debian's packages
(deploy/docker/base.sh, needs mmdebstrap), and HAProxy, the store and Prometheus are Debian's, too; Grafana is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
BASE = "python:3.11-slim-bookworm"
STAND_IN = "localhost/duplex-es-base:bookworm"
GATEWAY_LIMIT_BYTES = 200_000_000
CERTIFICATES = "/etc/ssl/certs"
COMPOSE = ROOT / "deploy/compose/compose.yaml"
READY_S = 120.0
SERVICES = ("valkey", "gateway-1", "gateway-2", "worker-1", "worker-2", "haproxy", "prometheus")
NEIGHBOURS = {
    "haproxy": ("haproxy", 'CMD ["haproxy", "-db", "-f", "/usr/local/etc/haproxy/haproxy.cfg"]'),
    "valkey": (
        "redis-server",
        "RUN ln -s redis-server /usr/bin/valkey-server && ln -s redis-cli /usr/bin/valkey-cli"
        " && install -d -o 999 -g 1000 /data",
    ),
    "prometheus": ("prometheus", 'RUN install -d -o 65534 /prometheus\nUSER 65534\nENTRYPOINT ["prometheus"]'),
}
"""What stands in for an image where none can be pulled: Debian's package, and what makes it look like the image."""

VALKEY = "valkey/valkey:8.1-alpine"
CHART = ("gateway/deployment", "workers/deployment", "workers/configmap")
"""What podman can make pods of."""

ENGINE = """[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
log_driver = "k8s-file"
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
[network]
network_backend = "netavark"
"""
"""For a machine without systemd and with both cgroup hierarchies: crun and the usual limits fail there."""


class Failed(Exception):
    """What was not as it should be, in words."""


class Engine:
    """buildah and podman with a store and settings of their own under ``store``."""

    def __init__(self, store: Path) -> None:
        self.store = store
        store.mkdir(parents=True, exist_ok=True)
        (store / "containers.conf").write_text(ENGINE)
        places = f'driver = "overlay"\ngraphroot = "{store}/graph"\nrunroot = "{store}/run"\n'
        (store / "storage.conf").write_text(f"[storage]\n{places}")
        self.environment = {
            **os.environ,
            "CONTAINERS_CONF": str(store / "containers.conf"),
            "CONTAINERS_STORAGE_CONF": str(store / "storage.conf"),
        }

    def run(self, *words: str, check: bool = True, timeout_s: float = 900.0, more: Mapping[str, str] = {}) -> str:
        """What a program said on stdout; ``more`` is added to its environment. Raises: Failed with what it said."""
        result = subprocess.run(
            words,
            env={**self.environment, **more},
            cwd=ROOT,
            text=True,
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )
        if check and result.returncode:
            raise Failed(f"{' '.join(words)}\n{result.stdout[-2000:]}\n{result.stderr[-2000:]}")
        return result.stdout

    def has(self, image: str) -> bool:
        """Whether the store has this image."""
        return not subprocess.run(["podman", "image", "exists", image], env=self.environment, check=False).returncode

    def size_bytes(self, image: str) -> int:
        """How large an image is unpacked, its base included."""
        return int(self.inspect(image)["Size"])

    def inspect(self, image: str) -> dict[str, Any]:
        """What podman knows of an image."""
        found: list[dict[str, Any]] = json.loads(self.run("podman", "image", "inspect", image))
        return found[0]


def say(words: str) -> None:
    """A line for whoever watches."""
    print(words, flush=True)


def find_program(name: str) -> str:
    """A Python tool: beside this interpreter, in ``.tools``, or on the PATH. Raises: Failed."""
    places = (Path(sys.executable).with_name(name), ROOT / ".tools/bin" / name, ROOT / ".tools/venv/bin" / name)
    found = next((str(place) for place in places if place.exists()), None) or shutil.which(name)
    if found is None:
        raise Failed(f"{name} is not here: `make helm` brings helm, `make images` the rest")
    return found


# -- building ------------------------------------------------------------------------------------------------------


def find_base(engine: Engine, wanted: str | None) -> str:
    """The base image: what was asked for, the usual one where a registry answers, or Debian's packages."""
    if wanted:
        return wanted
    try:
        engine.run("buildah", "pull", "--policy", "missing", BASE, timeout_s=60.0)
        return BASE
    except (Failed, subprocess.TimeoutExpired):
        say(f"{BASE} cannot be pulled here: its stand-in is made of Debian's packages")
    if not engine.has(STAND_IN):
        tar = engine.store / "base.tar"
        if not tar.exists():
            engine.run("sh", "deploy/docker/base.sh", str(tar))
        recipe = engine.store / "Base.Containerfile"
        recipe.write_text("FROM scratch\nADD base.tar /\n")
        build(engine, STAND_IN, recipe, engine.store, {})
    return STAND_IN


def build(engine: Engine, tag: str, recipe: Path, context: Path, arguments: Mapping[str, str]) -> float:
    """Build one image; how long it took, in seconds."""
    began_s = time.monotonic()
    words = ["buildah", "bud", "--format", "docker", "--isolation", "chroot", "--layers"]
    # Behind a proxy that has a certificate of its own, pip inside must know what this machine knows.
    # So must it find wheels that lie on this machine.
    wheels = os.environ.get("PIP_FIND_LINKS", "")
    for folder in (CERTIFICATES, wheels):
        words += ["--volume", f"{folder}:{folder}:ro"] if folder and Path(folder).is_dir() else []
    for name, value in arguments.items():
        words += ["--build-arg", f"{name}={value}"]
    engine.run(*words, "-t", tag, "-f", str(recipe), str(context))
    return time.monotonic() - began_s


def build_ours(engine: Engine, base: str, names: Sequence[str]) -> dict[str, str]:
    """Build the images of this project; their tags by name."""
    labels = {"BASE": base, "VERSION": _version(), "REVISION": _git("rev-parse", "HEAD")}
    labels["CREATED"] = _git("log", "-1", "--format=%cI")
    tags = {}
    for name in names:
        tags[name] = f"localhost/duplex-es-{name}:ci"
        took_s = build(engine, tags[name], ROOT / f"deploy/docker/{name}.Dockerfile", ROOT, labels)
        say(f"{tags[name]}: {engine.size_bytes(tags[name]) / 1e6:.0f} MB, built in {took_s:.0f} s")
    return tags


def stand_ins(engine: Engine) -> dict[str, str]:
    """Images for what stands around the service, from Debian's packages; the compose file's variables for them."""
    variables = {}
    for name, (package, more) in NEIGHBOURS.items():
        tag = f"localhost/standin-{name}:bookworm"
        if not engine.has(tag):
            recipe = engine.store / f"{name}.Containerfile"
            install = f"apt-get update && apt-get install -y --no-install-recommends {package}"
            recipe.write_text(f"FROM {STAND_IN}\nRUN {install}\n{more}\n")
            build(engine, tag, recipe, engine.store / "run", {})
        variables[f"{name.upper()}_IMAGE"] = tag
    return variables


def try_engine(engine: Engine, base: str) -> None:
    """The image for GPUs with a torch for processors in it: built, and a tiny engine asked for an answer.

    Raises: Failed. The real one differs by what ``REQUIREMENTS`` names, and by a GPU.
    """
    tag = "localhost/duplex-es-worker-personaplex:ci"
    # Debian's Python has its headers in a package of their own.
    packages = "gcc libc6-dev libpython3.11-dev" if base == STAND_IN else "gcc libc6-dev"
    arguments = {"BASE": base, "PACKAGES": packages, "VERSION": _version()}
    arguments["REQUIREMENTS"] = "deploy/requirements/neural-test.txt"
    arguments["PIP_FIND_LINKS"] = os.environ.get("PIP_FIND_LINKS", "")
    took_s = build(engine, tag, ROOT / "deploy/docker/worker-cuda.Dockerfile", ROOT, arguments)
    say(f"{tag}: {engine.size_bytes(tag) / 1e6:.0f} MB with torch for processors, built in {took_s:.0f} s")
    words = ["--model", "nvidia/personaplex-7b-v1", "--check", "--log-format", "text"]
    for option in ("python=/opt/personaplex/bin/python", "weights=random", "shape=tiny", "slots=2", "device=cpu"):
        words += ["--model-option", option]
    hardened = ("--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--network=none")
    told = engine.run("podman", "run", "--rm", *hardened, "--env", "DUPLEX_ES_DEPLOYMENT=", tag, *words)
    say(told.strip().splitlines()[-1])


# -- looking -------------------------------------------------------------------------------------------------------


def examine(engine: Engine, name: str, tag: str) -> None:
    """Hold one image to what it promises. Raises: Failed."""
    image = engine.inspect(tag)
    config, labels = image["Config"], image["Labels"]
    bill = json.loads(
        engine.run(
            "podman", "run", "--rm", "--network", "none", "--entrypoint", "cat", tag, labels["duplex-es.sbom.path"]
        )
    )
    parts = {part["name"].lower() for part in bill["components"]}
    compressed = _compressed_bytes(engine, tag)
    say(f"{tag}: {len(parts)} components in its bill, {compressed / 1e6:.0f} MB compressed")
    wrong = {
        "runs as root": not config["User"].split(":")[0].isdigit() or config["User"].startswith("0"),
        "has no health check": not image.get("Healthcheck"),
        "has a shell as its entry point": config["Entrypoint"] != [f"duplex-es-{name}"],
        "does not stop by SIGTERM": config.get("StopSignal", "SIGTERM") not in ("SIGTERM", "15"),
        "has no revision": labels["org.opencontainers.image.revision"] in ("", "unknown"),
        "has torch in it": "torch" in parts,
        "does not name itself in its bill": "duplex-es" not in parts,
        "is too large": name == "gateway" and engine.size_bytes(tag) > GATEWAY_LIMIT_BYTES,
    }
    if any(wrong.values()):
        raise Failed(f"{tag} {', '.join(words for words, is_so in wrong.items() if is_so)}")
    hardened = ("--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--network=none")
    engine.run("podman", "run", "--rm", *hardened, tag, "--help")


def _compressed_bytes(engine: Engine, tag: str) -> int:
    folder = engine.store / "pushed"
    shutil.rmtree(folder, ignore_errors=True)
    engine.run("buildah", "push", "--compression-format", "gzip", tag, f"dir:{folder}")
    size = sum(path.stat().st_size for path in folder.iterdir())
    shutil.rmtree(folder)
    return size


# -- running -------------------------------------------------------------------------------------------------------


class Stack:
    """The compose file with these images; ``with`` it. Health checks are asked by hand: no systemd, no timers."""

    def __init__(self, engine: Engine, images: Mapping[str, str], services: Sequence[str], model: str) -> None:
        self._engine = engine
        self._services = services
        # What the file asks for may be more than this machine allows.
        self._limits = engine.store / "limits.json"
        few = {"soft": 1024, "hard": 1024}
        limits = {"ulimits": {"nofile": few, "nproc": few}}
        self._limits.write_text(json.dumps({"services": dict.fromkeys(services, limits)}))
        self._settings = {
            **images,
            "VALKEY_PASSWORD": "trial",
            "GRAFANA_PASSWORD": "trial",
            "MODEL": model,
            "SLOTS": "4",
        }

    def compose(self, *words: str, check: bool = True) -> str:
        """One command of podman-compose."""
        files = ("-f", str(COMPOSE), "-f", str(self._limits))
        return self._engine.run(find_program("podman-compose"), *files, *words, check=check, more=self._settings)

    def __enter__(self) -> Stack:
        try:
            self.compose("up", "--detach", "--no-build", *self._services)
            self.wait_until_healthy()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.compose("down", "--volumes", check=False)

    def container(self, service: str) -> str:
        """The name of a service's container."""
        return f"duplex-es_{service}_1"

    def wait_until_healthy(self) -> None:
        """Return once every service with a health check is well. Raises: Failed with what one of them said."""
        deadline = time.monotonic() + READY_S
        for service in self._services:
            while not self._is_well(service):
                if time.monotonic() > deadline:
                    raise Failed(f"{service} is not well:\n{self.logs(service)}")
                time.sleep(0.5)

    def logs(self, service: str) -> str:
        """The end of what a service said."""
        both = subprocess.run(
            ["podman", "logs", "--tail", "30", self.container(service)],
            env=self._engine.environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        return both.stdout + both.stderr

    def _is_well(self, service: str) -> bool:
        asked = subprocess.run(
            ["podman", "healthcheck", "run", self.container(service)],
            env=self._engine.environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        return asked.returncode == 0 or "no defined healthcheck" in asked.stderr


def converse(engine: Engine, stack: Stack, model: str) -> None:
    """A spoken question through HAProxy, then callers while a gateway and a worker are replaced. Raises: Failed."""
    program, url = find_program("duplex-es"), "ws://127.0.0.1:8099/v1/realtime"
    question = ROOT / "examples/audio/question.wav"
    out = ROOT / "out/images"
    commit = [] if model == "cascade" else ["--commit"]
    engine.run(program, "talk", url, "--model", model, "--wav", str(question), "--out", str(out), *commit)
    say((out / "transcript.txt").read_text().strip())
    report = out / "bench.json"
    words = [
        "bench",
        url,
        "--model",
        model,
        "--sessions",
        "2",
        "--duration-s",
        "40",
        "--quiet",
        "--timeout-s",
        "90",
        "--out",
        str(report),
    ]
    # Only a sentence is understood, and only its end is answered.
    words += ["--wav", str(question), "--vad", "--pause-ms", "1000"] if model == "cascade" else []
    callers = subprocess.Popen([program, *words], stdout=subprocess.DEVNULL)
    try:
        for service in ("gateway-1", "worker-1", "gateway-2"):
            time.sleep(4)  # HAProxy looks up names and health, and everybody talks
            engine.run("podman", "restart", "--time", "30", stack.container(service))
            stack.wait_until_healthy()
        status = callers.wait(timeout=180)
    finally:
        callers.kill()
    told = json.loads(report.read_text())
    replaced = "gateway-1, worker-1 and gateway-2 were replaced"
    say(f"{told['sessions']['opened']} callers while {replaced}: {json.dumps(told['answers'])}")
    if status:
        raise Failed("not every question was answered")


def play_chart(engine: Engine, images: Mapping[str, str], store_image: str) -> None:
    """The chart's own pods, as ``podman kube play`` makes them, over a store beside them: one echoes. Raises: Failed.

    Podman 4.3 knows no Secret as a volume and no Service, so the store has no password and the gateway is asked at its
    address.
    """
    gateway, worker = (images[name].rpartition(":") for name in ("gateway", "worker"))
    values = {"global.imageRegistry": "localhost", "redis.host": "store", "gateway.replicas": "1"}
    values |= {"gateway.image.tag": gateway[2], "workerDefaults.image.tag": worker[2], "workers.cascade.model": "echo"}
    words = [word for name, value in values.items() for word in ("--set", f"{name}={value}")]
    pods = engine.store / "pods.yaml"
    words += [word for template in CHART for word in ("--show-only", f"templates/{template}.yaml")]
    pods.write_text(engine.run(find_program("helm"), "template", "ci", "helm/duplex-es", *words))
    engine.run("podman", "network", "create", "chart")
    try:
        server = ("valkey-server", "--bind", "*", "--protected-mode", "no")
        engine.run("podman", "run", "--detach", "--name", "store", "--network", "chart", store_image, *server)
        engine.run("podman", "kube", "play", "--network", "chart", str(pods))
        address = _address(engine, "chart")
        deadline = time.monotonic() + READY_S
        while not _is_ready(f"http://{address}:8099/readyz") or "echo" not in _models(address):
            if time.monotonic() > deadline:
                raise Failed("the chart's pods are not ready")
            time.sleep(0.5)
        question, out = ROOT / "examples/audio/question.wav", ROOT / "out/images/chart"
        url, sound = f"ws://{address}:8099/v1/realtime", ("--wav", str(question), "--out", str(out), "--commit")
        engine.run(find_program("duplex-es"), "talk", url, "--model", "echo", *sound)
        say(f"the chart's pods answered: {(out / 'answer.wav').stat().st_size:,} bytes of sound")
    finally:
        engine.run("podman", "kube", "down", str(pods), check=False)
        engine.run("podman", "rm", "--force", "store", check=False)
        engine.run("podman", "network", "rm", "--force", "chart", check=False)


def _address(engine: Engine, network: str) -> str:
    """Where the gateway's pod is."""
    pods = engine.run("podman", "pod", "ps", "--format", "{{.Name}} {{.InfraID}}").splitlines()
    infra = next(line.split()[1] for line in pods if "gateway" in line)
    found = json.loads(engine.run("podman", "inspect", infra))[0]["NetworkSettings"]["Networks"][network]["IPAddress"]
    return str(found)


def _is_ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=3):
            return True
    except (urllib.error.URLError, OSError):
        return False


def _models(address: str) -> str:
    try:
        with urllib.request.urlopen(f"http://{address}:8099/v1/models", timeout=3) as answer:
            return str(answer.read().decode())
    except (urllib.error.URLError, OSError):
        return ""


def watch() -> None:
    """Prometheus has scraped every gateway and worker. Raises: Failed."""
    deadline = time.monotonic() + 40
    while True:
        up = _query("sum(up)")
        if up >= 5:
            say(f"Prometheus: {up:.0f} of 5 targets are up, {_query('sum(duplex_worker_slots)'):.0f} slots")
            return
        if time.monotonic() > deadline:
            raise Failed(f"Prometheus sees {up:.0f} of 5 targets")
        time.sleep(1)


def _query(expression: str) -> float:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:9090/api/v1/query?query={expression}", timeout=5) as answer:
            result = json.load(answer)["data"]["result"]
    except (urllib.error.URLError, OSError):
        return 0.0
    return float(result[0]["value"][1]) if result else 0.0


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()


def _version() -> str:
    sys.path.insert(0, str(ROOT))
    from duplex_es import __version__

    return __version__


def main(words: Sequence[str] | None = None) -> int:
    """Build, look, run; the exit code."""
    parser = argparse.ArgumentParser(prog="images", description=__doc__)
    parser.add_argument("--store", type=Path, default=Path("/var/tmp/duplex-es-images"), help="where images are kept")
    parser.add_argument("--base", default=None, help="the base image instead of the usual one")
    parser.add_argument("--model", default="cascade", help="what the workers serve")
    parser.add_argument("--engine", action="store_true", help="also the image for GPUs, with a torch for processors")
    parser.add_argument("--no-run", action="store_true", help="build and look, run nothing")
    args = parser.parse_args(words)
    engine = Engine(args.store)
    try:
        base = find_base(engine, args.base)
        tags = build_ours(engine, base, ("gateway", "worker"))
        for name, tag in tags.items():
            examine(engine, name, tag)
        if args.engine:
            try_engine(engine, base)
        if args.no_run:
            return 0
        images = {f"{name.upper()}_IMAGE": tag for name, tag in tags.items()}
        neighbours = stand_ins(engine) if base == STAND_IN else {}
        with Stack(engine, {**images, **neighbours}, SERVICES, args.model) as stack:
            converse(engine, stack, args.model)
            watch()
        play_chart(engine, tags, neighbours.get("VALKEY_IMAGE", VALKEY))
    except Failed as failure:
        print(f"images: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
