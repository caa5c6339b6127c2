"""The kinds that the API server of the tests knows, and what it tells clients about them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind: ``version`` is its group's with the group before it, ``plural`` its name in paths."""

    version: str
    plural: str
    name: str
    namespaced: bool = True

    @property
    def root(self) -> str:
        """Where its group lies."""
        return "api/v1" if self.version == "v1" else f"apis/{self.version}"


KINDS = (
    Kind("v1", "namespaces", "Namespace", namespaced=False),
    Kind("v1", "pods", "Pod"),
    Kind("v1", "services", "Service"),
    Kind("v1", "configmaps", "ConfigMap"),
    Kind("v1", "secrets", "Secret"),
    Kind("v1", "serviceaccounts", "ServiceAccount"),
    Kind("v1", "persistentvolumeclaims", "PersistentVolumeClaim"),
    Kind("v1", "events", "Event"),
    Kind("v1", "replicationcontrollers", "ReplicationController"),
    Kind("apps/v1", "deployments", "Deployment"),
    Kind("apps/v1", "statefulsets", "StatefulSet"),
    Kind("apps/v1", "daemonsets", "DaemonSet"),
    Kind("apps/v1", "replicasets", "ReplicaSet"),
    Kind("batch/v1", "jobs", "Job"),
    Kind("policy/v1", "poddisruptionbudgets", "PodDisruptionBudget"),
    Kind("autoscaling/v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler"),
    Kind("networking.k8s.io/v1", "ingresses", "Ingress"),
    Kind("networking.k8s.io/v1", "networkpolicies", "NetworkPolicy"),
    Kind("apiextensions.k8s.io/v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False),
    Kind("monitoring.coreos.com/v1", "servicemonitors", "ServiceMonitor"),
    Kind("monitoring.coreos.com/v1", "podmonitors", "PodMonitor"),
    Kind("monitoring.coreos.com/v1", "prometheusrules", "PrometheusRule"),
    Kind("keda.sh/v1alpha1", "scaledobjects", "ScaledObject"),
    Kind("keda.sh/v1alpha1", "triggerauthentications", "TriggerAuthentication"),
    Kind("gateway.networking.k8s.io/v1", "httproutes", "HTTPRoute"),
)
BY_PATH = {(kind.version, kind.plural): kind for kind in KINDS}
GROUPS = sorted({kind.version for kind in KINDS} - {"v1"})


def discovery(path: str, minor: int) -> dict[str, Any] | None:
    """What the server says of itself at ``path``, ``None`` where it says nothing."""
    if path == "/version":
        return {"major": "1", "minor": str(minor), "gitVersion": f"v1.{minor}.0", "platform": "linux/amd64"}
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"]}
    if path == "/apis":
        groups = [{"groupVersion": each, "version": each.split("/")[1]} for each in GROUPS]
        listed = [
            {"name": each["groupVersion"].split("/")[0], "versions": [each], "preferredVersion": each}
            for each in groups
        ]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}
    if path == "/openapi/v3":
        roots = sorted({kind.root for kind in KINDS})
        return {"paths": {root: {"serverRelativeURL": f"/openapi/v3/{root}"} for root in roots}}
    if found := re.fullmatch(r"/openapi/v3/(.+)", path):
        return _openapi(found[1])
    own = [kind for kind in KINDS if f"/{kind.root}" == path]
    return _resources(own) if own else None


def _resources(kinds: list[Kind]) -> dict[str, Any]:
    listed = [
        {
            "name": kind.plural,
            "singularName": kind.name.lower(),
            "namespaced": kind.namespaced,
            "kind": kind.name,
            "verbs": VERBS,
        }
        for kind in kinds
    ]
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": kinds[0].version, "resources": listed}


def _openapi(root: str) -> dict[str, Any]:
    """As much as makes clients leave validation to the server: PATCH takes ``fieldValidation``."""
    takes = [
        {"name": name, "in": "query", "schema": {"type": "string"}}
        for name in ("fieldValidation", "dryRun", "fieldManager", "force")
    ]
    paths = {}
    for kind in KINDS:
        if kind.root == root:
            group, _, version = kind.version.rpartition("/")
            where = f"/{root}/{'namespaces/{namespace}/' if kind.namespaced else ''}{kind.plural}/{{name}}"
            described = {"group": group, "version": version, "kind": kind.name}
            patch = {
                "parameters": takes,
                "x-kubernetes-action": "patch",
                "x-kubernetes-group-version-kind": described,
                "responses": {"200": {"description": "OK"}},
            }
            paths[where] = {"patch": patch}
    return {"openapi": "3.0.0", "info": {"title": "api", "version": "1"}, "components": {"schemas": {}}, "paths": paths}
