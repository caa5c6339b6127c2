"""What no schema sees in rendered objects: references that lead nowhere, weak pods, time that does not add up.

``findings`` gives one sentence for each mistake, none for objects that fit together.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any

from gateway.server import ABANDON_S
from gateway.settings import Settings
from gateway.settings import variable as gateway_variable
from workers.settings import WorkerSettings
from workers.settings import variable as worker_variable

from .chart import Document, of_kind

WORKLOADS = ("Deployment", "StatefulSet", "Job")
PROGRAMS = {"duplex-es-gateway": "gateway", "duplex-es-worker": "worker"}
VARIABLES = {
    "gateway": {gateway_variable(option.name) for option in fields(Settings)},
    "worker": {worker_variable(option.name) for option in fields(WorkerSettings)},
}
PATHS = {"gateway": {"/healthz", "/readyz"}, "worker": {"/healthz", "/readyz", "/startupz"}}
CAPABILITIES = {"runAsNonRoot": True, "readOnlyRootFilesystem": True, "allowPrivilegeEscalation": False}


def findings(documents: Sequence[Document]) -> list[str]:
    """Every mistake, each with the object that has it."""
    found = [*_duplicates(documents), *_selections(documents), *_scaling(documents), *_routes(documents)]
    for document in documents:
        if (template := pod_of(document)) is not None:
            found += [f"{name(document)}: {each}" for each in _pod(document, template, documents)]
    return found


def name(document: Document) -> str:
    """Kind and name."""
    return f"{document['kind']}/{document['metadata']['name']}"


def pod_of(document: Document) -> Document | None:
    """The pod of a workload, or the pod itself."""
    if document["kind"] in WORKLOADS:
        template: Document = document["spec"]["template"]
        return template
    return document if document["kind"] == "Pod" else None


def _labels(template: Document) -> dict[str, str]:
    return template["metadata"].get("labels") or {}


def _chosen(documents: Sequence[Document], labels: dict[str, str]) -> list[Document]:
    """The pods that a selector of ``labels`` chooses."""
    pods = [template for each in documents if (template := pod_of(each)) is not None]
    return [template for template in pods if labels.items() <= _labels(template).items()]


def _duplicates(documents: Sequence[Document]) -> Iterator[str]:
    for (kind, held), count in Counter((each["kind"], each["metadata"]["name"]) for each in documents).items():
        if count > 1:
            yield f"{kind}/{held}: {count} objects of this name"
        if not re.fullmatch(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?", held):
            yield f"{kind}/{held}: no name for an object"


def _selections(documents: Sequence[Document]) -> Iterator[str]:
    for document in documents:
        kind, spec = document["kind"], document.get("spec") or {}
        if kind in ("Deployment", "StatefulSet"):
            selector = spec["selector"]["matchLabels"]
            if not selector.items() <= _labels(spec["template"]).items():
                yield f"{name(document)}: its selector does not choose its own pods"
            if len(of_same := _chosen(documents, selector)) > 1:
                yield f"{name(document)}: its selector chooses the pods of {len(of_same)} workloads"
        if kind == "Service" and spec.get("selector"):
            chosen = _chosen(documents, spec["selector"])
            if not chosen:
                yield f"{name(document)}: selects no pod"
            ports = {
                port["name"] for pod in chosen for each in pod["spec"]["containers"] for port in each.get("ports", [])
            }
            for port in spec["ports"]:
                if isinstance(port.get("targetPort"), str) and chosen and port["targetPort"] not in ports:
                    yield f"{name(document)}: port {port['targetPort']} is on no container"
        if kind in ("PodDisruptionBudget", "PodMonitor", "NetworkPolicy"):
            labels = spec["podSelector" if kind == "NetworkPolicy" else "selector"]["matchLabels"]
            chosen = _chosen(documents, labels)
            if not chosen:
                yield f"{name(document)}: selects no pod"
            yield from _watched_ports(document, chosen)
        if kind == "ServiceMonitor":
            labels = spec["selector"]["matchLabels"]
            services = [each for each in of_kind(documents, "Service") if labels.items() <= _labels(each).items()]
            offered = {port["name"] for each in services for port in each["spec"]["ports"]}
            for endpoint in spec["endpoints"]:
                if endpoint["port"] not in offered:
                    yield f"{name(document)}: port {endpoint['port']} is on no selected Service"


def _watched_ports(document: Document, chosen: Sequence[Document]) -> Iterator[str]:
    offered = {port["name"] for pod in chosen for each in pod["spec"]["containers"] for port in each.get("ports", [])}
    named = [each["port"] for each in document["spec"].get("podMetricsEndpoints", [])]
    for rule in document["spec"].get("ingress", []) if document["kind"] == "NetworkPolicy" else []:
        named += [port["port"] for port in rule.get("ports", []) if isinstance(port["port"], str)]
    for port in named:
        if port not in offered:
            yield f"{name(document)}: port {port} is on no container"


def _scaling(documents: Sequence[Document]) -> Iterator[str]:
    targets: Counter[str] = Counter()
    for scaler in (*of_kind(documents, "HorizontalPodAutoscaler"), *of_kind(documents, "ScaledObject")):
        target = scaler["spec"]["scaleTargetRef"]["name"]
        targets[target] += 1
        found = [each for each in of_kind(documents, "Deployment") if each["metadata"]["name"] == target]
        if not found:
            yield f"{name(scaler)}: scales {target}, which is not there"
        if any("replicas" in each["spec"] for each in found):
            yield f"{name(scaler)}: {target} has replicas of its own, so that every upgrade would fight the autoscaler"
    yield from (f"Deployment/{target}: scaled by {count}" for target, count in targets.items() if count > 1)


def _routes(documents: Sequence[Document]) -> Iterator[str]:
    ports = {
        each["metadata"]["name"]: {port[key] for port in each["spec"]["ports"] for key in ("name", "port")}
        for each in of_kind(documents, "Service")
    }
    for document in of_kind(documents, "Ingress"):
        for rule in document["spec"]["rules"]:
            for path in rule["http"]["paths"]:
                service = path["backend"]["service"]
                if not {*service["port"].values()} & ports.get(service["name"], set()):
                    yield f"{name(document)}: leads to {service['name']}, which is not there or has no such port"
    for document in of_kind(documents, "HTTPRoute"):
        for rule in document["spec"]["rules"]:
            for backend in rule["backendRefs"]:
                if backend["port"] not in ports.get(backend["name"], set()):
                    yield f"{name(document)}: leads to {backend['name']}, which is not there or has no such port"


def _pod(document: Document, template: Document, documents: Sequence[Document]) -> Iterator[str]:
    spec = template["spec"]
    if spec.get("automountServiceAccountToken") is not False:
        yield "mounts the token of its service account"
    if spec.get("enableServiceLinks") is not False:
        yield "gets variables of Services, which would be read as settings"
    account = spec.get("serviceAccountName", "default")
    if account != "default" and account not in {
        each["metadata"]["name"] for each in of_kind(documents, "ServiceAccount")
    }:
        yield f"service account {account} is not there"
    containers = [*spec["containers"], *spec.get("initContainers", [])]
    yield from _volumes(spec, containers, documents)
    for held in containers:
        yield from (f"{held['name']}: {each}" for each in _container(spec, held))
        # The archive answers nobody: that it runs is all there is to ask.
        asked = held in spec["containers"] and (held.get("command") or [""])[0] != "duplex-es"
        if document["kind"] in ("Deployment", "StatefulSet") and asked:
            yield from (
                f"{held['name']}: has no {probe}" for probe in ("readinessProbe", "livenessProbe") if probe not in held
            )
            yield from (f"{held['name']}: {each}" for each in _probes(held))
    for held in spec["containers"]:
        if (tier := PROGRAMS.get((held.get("command") or [""])[0])) is not None:
            yield from _program(tier, held)
            yield from _grace(tier, spec, held, documents)


def _volumes(spec: Document, containers: Sequence[Document], documents: Sequence[Document]) -> Iterator[str]:
    volumes = {each["name"]: each for each in spec.get("volumes", [])}
    claimed = {
        claim["metadata"]["name"]
        for each in of_kind(documents, "StatefulSet")
        if each["spec"]["template"]["spec"] is spec
        for claim in each["spec"].get("volumeClaimTemplates", [])
    }
    mounted = {mount["name"] for each in containers for mount in each.get("volumeMounts", [])}
    yield from (f"volume {each} is mounted nowhere" for each in sorted(volumes.keys() - mounted))
    yield from (f"volume {each} is not there" for each in sorted(mounted - volumes.keys() - claimed))
    own = {each["metadata"]["name"] for each in of_kind(documents, "ConfigMap")}
    for volume in volumes.values():
        if "configMap" in volume and volume["configMap"]["name"] not in own:
            yield f"ConfigMap {volume['configMap']['name']} is not there"


def _container(spec: Document, held: Document) -> Iterator[str]:
    image = held["image"]
    if "@sha256:" not in image and (":" not in image.rsplit("/", 1)[-1] or image.endswith(":latest")):
        yield f"image {image} is not pinned"
    context = {**spec.get("securityContext", {}), **held.get("securityContext", {})}
    yield from (f"{key} is not {wanted}" for key, wanted in CAPABILITIES.items() if context.get(key) is not wanted)
    if "ALL" not in context.get("capabilities", {}).get("drop", []):
        yield "keeps capabilities"
    if context.get("seccompProfile", {}).get("type") != "RuntimeDefault":
        yield "has no seccomp profile"
    if not held.get("resources", {}).get("requests", {}).get("memory"):
        yield "requests no memory"
    variables = [each["name"] for each in held.get("env", [])]
    yield from (f"sets {each} twice" for each, count in Counter(variables).items() if count > 1)
    yield from (
        f"{each['name']} is no text" for each in held.get("env", []) if not isinstance(each.get("value", ""), str)
    )


def _probes(held: Document) -> Iterator[str]:
    ports = {port["name"] for port in held.get("ports", [])}
    for kind in ("startupProbe", "readinessProbe", "livenessProbe"):
        for check in ("httpGet", "tcpSocket"):
            port: Any = held.get(kind, {}).get(check, {}).get("port")
            if isinstance(port, str) and port not in ports:
                yield f"{kind} asks port {port}, which it does not have"


def _program(tier: str, held: Document) -> Iterator[str]:
    """Of our own programs: their variables, flags and paths are real."""
    for each in held["env"]:
        if each["name"].startswith("DUPLEX_ES_") and each["name"] not in VARIABLES[tier]:
            yield f"{each['name']} is no setting of the {tier}"
    for argument in held.get("args", []):
        flag = argument.split("=")[0]
        if f"DUPLEX_ES_{flag.removeprefix('--').replace('-', '_').upper()}" not in VARIABLES[tier]:
            yield f"{flag} is no flag of the {tier}"
    for kind in ("startupProbe", "readinessProbe", "livenessProbe"):
        path = held.get(kind, {}).get("httpGet", {}).get("path")
        if path not in PATHS[tier]:
            yield f"{kind} asks for {path}, which the {tier} does not serve"


def _grace(tier: str, spec: Document, held: Document, documents: Sequence[Document]) -> Iterator[str]:
    """preStop, drain and the end after it fit into the pod's grace."""
    hook = held.get("lifecycle", {}).get("preStop", {})
    slept = hook.get("sleep", {}).get("seconds", 0) or int((hook.get("exec", {}).get("command") or ["", "0"])[1])
    variables = {each["name"]: each.get("value") for each in held["env"]}
    drain_s = float(variables["DUPLEX_ES_DRAIN_S"]) if tier == "gateway" else _deployment_drain_s(spec, documents)
    needed = slept + drain_s + ABANDON_S
    grace = spec.get("terminationGracePeriodSeconds", 30)
    if grace <= needed:
        yield f"stopping takes {slept} + {drain_s:g} + {ABANDON_S} s, and the pod is killed after {grace} s"


def _deployment_drain_s(spec: Document, documents: Sequence[Document]) -> float:
    mounted = next(each["configMap"]["name"] for each in spec["volumes"] if each["name"] == "deployment")
    text = next(
        each["data"]["deployment.toml"]
        for each in of_kind(documents, "ConfigMap")
        if each["metadata"]["name"] == mounted
    )
    found = re.search(r"^drain_s = ([0-9.]+)$", text, re.MULTILINE)
    return float(found[1]) if found else WorkerSettings().drain_s
