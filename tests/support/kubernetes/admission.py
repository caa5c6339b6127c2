"""What the API server of the tests refuses, and what its controllers make of what it takes."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

from .schemas import schema_errors

Object = dict[str, Any]
IMMUTABLE = {
    "Deployment": ("selector",),
    "StatefulSet": ("selector", "serviceName", "volumeClaimTemplates", "podManagementPolicy"),
    "Job": ("template", "selector"),
    "PersistentVolumeClaim": ("accessModes", "storageClassName", "volumeName"),
}
LABEL = r"(([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9])?"


def refusals(new: Object, old: Object | None, minor: int) -> list[str]:
    """Why ``new`` cannot take the place of ``old``; empty when it can. An unknown field is a reason, too."""
    found = schema_errors({key: value for key, value in new.items() if key != "status"}, minor)
    for key, value in (new["metadata"].get("labels") or {}).items():
        if not re.fullmatch(LABEL, str(value)):
            found.append(f"metadata.labels.{key}: {value!r} is no value of a label")
    spec = new.get("spec") or {}
    if new["kind"] in ("Deployment", "StatefulSet"):
        labels = spec["template"]["metadata"].get("labels") or {}
        if not spec["selector"]["matchLabels"].items() <= labels.items():
            found.append("spec.template.metadata.labels: the selector does not match them")
    if new["kind"] == "Service" and old is not None and old["spec"].get("clusterIP") == "None" != spec.get("clusterIP"):
        found.append("spec.clusterIP: field is immutable")
    if old is not None:
        was = old.get("spec") or {}
        for field in IMMUTABLE.get(new["kind"], ()):
            if was.get(field) != spec.get(field):
                found.append(f"spec.{field}: field is immutable")
    return found


def settled(held: Object, *, ready: bool) -> None:
    """Give ``held`` the status that controllers give it when all goes well, or when nothing becomes ready."""
    spec = held.get("spec") or {}
    if held["kind"] in ("Deployment", "StatefulSet"):
        spec.setdefault("replicas", 1)  # the one default that Helm 3 does not do without
    count = spec.get("replicas", 1)
    counts = {"replicas": count, "updatedReplicas": count, "observedGeneration": held["metadata"]["generation"]}
    able = {"readyReplicas": count if ready else 0, "availableReplicas": count if ready else 0}
    match held["kind"]:
        case "Deployment":
            progress = "NewReplicaSetAvailable" if ready else "ReplicaSetUpdated"
            conditions = [
                {"type": "Available", "status": str(ready), "reason": "MinimumReplicas"},
                {"type": "Progressing", "status": "True", "reason": progress},
            ]
            held["status"] = {**counts, **able, "conditions": conditions}
        case "StatefulSet":
            held["status"] = {**counts, **able, "currentReplicas": count, "currentRevision": "a", "updateRevision": "a"}
        case "PersistentVolumeClaim":
            held["status"] = {"phase": "Bound"}
        case "PodDisruptionBudget":
            numbers = dict.fromkeys(("currentHealthy", "desiredHealthy", "expectedPods"), 1)
            held["status"] = {**numbers, "disruptionsAllowed": 0, "observedGeneration": counts["observedGeneration"]}
        case "Service":
            spec.setdefault("clusterIP", "10.0.0.1")
            given = {"ingress": [{"ip": "10.0.0.2"}]} if spec.get("type") == "LoadBalancer" else {}
            held["status"] = {"loadBalancer": given}


def replica_set(deployment: Object) -> Object:
    """The newest ReplicaSet of a Deployment: Helm 3 waits for it rather than for the Deployment."""
    metadata, template = deployment["metadata"], deployment["spec"]["template"]
    digest = hashlib.sha256(json.dumps(template, sort_keys=True).encode()).hexdigest()[:10]
    count = deployment["spec"].get("replicas", 1)
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": metadata["name"], "uid": metadata["uid"]}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{metadata['name']}-{digest}",
            "generation": 1,
            "namespace": metadata["namespace"],
            "labels": {**template["metadata"]["labels"], "pod-template-hash": digest},
            "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
        },
        "spec": {"replicas": count, "selector": deployment["spec"]["selector"], "template": template},
        "status": {
            "replicas": count,
            "readyReplicas": deployment["status"].get("readyReplicas", 0),
            "observedGeneration": 1,
        },
    }
