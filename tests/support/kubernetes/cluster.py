"""An API server in memory, good enough for real Helm: install, upgrade, rollback, test, uninstall, ``--wait``.

It has discovery, objects, selectors, watches, patches, strict schemas, immutable fields, the conflict over
``spec.replicas`` beside an autoscaler, garbage collection, and controllers that call everything ready. It is no
cluster: nothing is scheduled, hardly a default is filled in, and there is neither RBAC nor CEL nor a real controller.
"""

from __future__ import annotations

import copy
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from .admission import refusals, replica_set, settled
from .kinds import BY_PATH, Kind
from .patching import merged, patched
from .selecting import selects

Object = dict[str, Any]
Key = tuple[str, str, str | None, str]


class Problem(Exception):
    """An answer that is not the wanted one: the status, Kubernetes' reason and a sentence."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status, self.reason, self.message = status, reason, message


class Cluster:
    """The objects of one server. ``unready`` names workloads that never become ready; ``run_pod`` is how pods end.

    Every method that changes something holds ``changed``, and tells those who wait for it.
    """

    def __init__(self, minor: int) -> None:
        self.minor = minor
        self.unready: set[str] = set()
        self.run_pod: Callable[[Object, Cluster], bool] = lambda pod, cluster: True
        self.changed = threading.Condition(threading.RLock())
        self.objects: dict[Key, Object] = {}
        self.history: list[tuple[int, str, Key, Object]] = []
        self.logs: dict[tuple[str, str], str] = {}
        self.version = 100

    # -- reading -----------------------------------------------------------------------------------------------------

    def get(self, kind: Kind, namespace: str | None, name: str) -> Object:
        """One object; every namespace exists. Raises: Problem."""
        with self.changed:
            if (found := self.objects.get(_key(kind, namespace, name))) is not None:
                return copy.deepcopy(found)
        if kind.name == "Namespace":
            return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "resourceVersion": "1"}}
        raise Problem(404, "NotFound", f'{kind.plural} "{name}" not found')

    def listed(self, kind: Kind, namespace: str | None, query: Mapping[str, str]) -> list[Object]:
        """All of a kind that ``query`` selects."""
        with self.changed:
            return [
                copy.deepcopy(each) for key, each in self.objects.items() if _fits(kind, namespace, query, key, each)
            ]

    def since(
        self, version: int, kind: Kind, namespace: str | None, query: Mapping[str, str]
    ) -> list[tuple[int, str, Object]]:
        """What happened after ``version`` to objects that ``query`` selects."""
        with self.changed:
            return [
                (at, what, copy.deepcopy(each))
                for at, what, key, each in self.history
                if at > version and _fits(kind, namespace, query, key, each)
            ]

    def all_of(self, name: str) -> list[Object]:
        """Every object of the kind with this name."""
        with self.changed:
            return [copy.deepcopy(each) for each in self.objects.values() if each["kind"] == name]

    # -- writing -----------------------------------------------------------------------------------------------------

    def create(self, kind: Kind, namespace: str | None, body: Object, *, dry: bool = False) -> Object:
        """A new object. Raises: Problem."""
        metadata = body["metadata"]
        metadata["name"] = metadata.get("name") or metadata.get("generateName", "") + uuid.uuid4().hex[:5]
        key = _key(kind, namespace, metadata["name"])
        with self.changed:
            if key in self.objects:
                raise Problem(409, "AlreadyExists", f'{kind.plural} "{metadata["name"]}" already exists')
            return self._put(kind, key, body, None, dry=dry)

    def replace(self, kind: Kind, namespace: str | None, name: str, body: Object, *, dry: bool = False) -> Object:
        """Another object in the place of one. Raises: Problem."""
        with self.changed:
            return self._put(kind, _key(kind, namespace, name), body, self.get(kind, namespace, name), dry=dry)

    def patch(
        self,
        kind: Kind,
        namespace: str | None,
        name: str,
        body: Any,
        how: str,
        *,
        force: bool = False,
        dry: bool = False,
    ) -> Object:
        """An object after a patch of content type ``how``. Raises: Problem."""
        key = _key(kind, namespace, name)
        with self.changed:
            old = copy.deepcopy(self.objects.get(key))
            if "apply-patch" in how:
                new = self._applied(old, body, namespace, force=force)
            elif old is None:
                raise Problem(404, "NotFound", f'{kind.plural} "{name}" not found')
            else:
                new = patched(old, body) if "json-patch" in how else merged(old, body, strategic="strategic" in how)
            return self._put(kind, key, new, old, dry=dry)

    def delete(self, kind: Kind, namespace: str | None, name: str) -> None:
        """Take an object away, and those it owns. Raises: Problem."""
        key = _key(kind, namespace, name)
        with self.changed:
            if key not in self.objects:
                raise Problem(404, "NotFound", f'{kind.plural} "{name}" not found')
            gone = self._record("DELETED", key, self.objects[key])
            for other, held in list(self.objects.items()):
                if any(each["uid"] == gone["metadata"]["uid"] for each in held["metadata"].get("ownerReferences", [])):
                    self._record("DELETED", other, held)

    def scale(self, name: str, count: int) -> None:
        """What an autoscaler does."""
        with self.changed:
            for key, held in list(self.objects.items()):
                if held["kind"] == "Deployment" and held["metadata"]["name"] == name:
                    held["spec"]["replicas"] = count
                    self._record("MODIFIED", key, held)

    def log_of(self, pod: Object, text: str) -> None:
        """Keep what a pod printed, for those who ask for its log."""
        self.logs[pod["metadata"]["namespace"], pod["metadata"]["name"]] = text

    # -- inside ------------------------------------------------------------------------------------------------------

    def _applied(self, old: Object | None, body: Object, namespace: str | None, *, force: bool) -> Object:
        """Server-side apply by one who owns all but what autoscalers own."""
        spec = body.get("spec") or {}
        if old is None or body["kind"] != "Deployment":
            return body
        targets = (
            (each.get("spec") or {}).get("scaleTargetRef", {}).get("name")
            for each in self.objects.values()
            if each["metadata"].get("namespace") == namespace
        )
        if body["metadata"]["name"] not in targets:
            return body
        if "replicas" in spec and spec["replicas"] != old["spec"].get("replicas") and not force:
            message = 'Apply failed with 1 conflict: conflict with "kube-controller-manager": .spec.replicas'
            raise Problem(409, "Conflict", message)
        if "replicas" not in spec and "replicas" in old["spec"]:
            spec["replicas"] = old["spec"]["replicas"]
        return body

    def _put(self, kind: Kind, key: Key, new: Object, old: Object | None, *, dry: bool) -> Object:
        new.setdefault("apiVersion", kind.version)
        new.setdefault("kind", kind.name)
        metadata, before = new["metadata"], (old or {}).get("metadata", {})
        metadata.pop("managedFields", None)
        if key[2] is not None:
            metadata["namespace"] = key[2]
        metadata["uid"] = before.get("uid") or str(uuid.uuid4())
        metadata["creationTimestamp"] = before.get("creationTimestamp") or time.strftime(
            "%Y-%m-%dT%H:%M:%SZ", time.gmtime()
        )
        same = old is not None and old.get("spec") == new.get("spec")
        metadata["generation"] = before.get("generation", 0) + (0 if same else 1)
        if new.get("type") != "helm.sh/release.v1" and (found := refusals(new, old, self.minor)):
            raise Problem(422, "Invalid", f'{kind.name} "{key[3]}" is invalid: {"; ".join(found)}')
        settled(new, ready=key[3] not in self.unready)
        if dry:
            return copy.deepcopy(new)
        self._record("ADDED" if old is None else "MODIFIED", key, new)
        if kind.name == "Deployment":
            self._follow(new)
        if kind.name == "Pod" and old is None:
            self._start(key, new)
        return copy.deepcopy(new)

    def _follow(self, deployment: Object) -> None:
        """The ReplicaSet of a Deployment."""
        made = replica_set(deployment)
        kind = BY_PATH["apps/v1", "replicasets"]
        key = _key(kind, made["metadata"]["namespace"], made["metadata"]["name"])
        made["metadata"] |= {
            "uid": str(uuid.uuid4()),
            "creationTimestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }
        self._record("MODIFIED" if key in self.objects else "ADDED", key, made)

    def _start(self, key: Key, pod: Object) -> None:
        """Run a pod, in a thread of its own: it ends when ``run_pod`` does."""
        pod["status"] = {"phase": "Pending"}

        def live() -> None:
            phase = "Succeeded" if self.run_pod(copy.deepcopy(pod), self) else "Failed"
            with self.changed:
                if (held := self.objects.get(key)) is not None:
                    held["status"] = {"phase": phase, "conditions": [{"type": "Ready", "status": "False"}]}
                    self._record("MODIFIED", key, held)

        threading.Thread(target=live, daemon=True).start()

    def _record(self, what: str, key: Key, held: Object) -> Object:
        self.version += 1
        held["metadata"]["resourceVersion"] = str(self.version)
        if what == "DELETED":
            self.objects.pop(key, None)
        else:
            self.objects[key] = held
        self.history.append((self.version, what, key, copy.deepcopy(held)))
        self.changed.notify_all()
        return held


def _key(kind: Kind, namespace: str | None, name: str) -> Key:
    return kind.version, kind.plural, namespace if kind.namespaced else None, name


def _fits(kind: Kind, namespace: str | None, query: Mapping[str, str], key: Key, held: Object) -> bool:
    return key[:2] == (kind.version, kind.plural) and namespace in (None, key[2]) and selects(query, held)


@contextmanager
def running(minor: int, folder: Path) -> Iterator[tuple[Cluster, Path]]:
    """A server on loopback, and the file that tells clients where it is."""
    from .http import Server

    cluster = Cluster(minor)
    server = Server(cluster)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "here", "cluster": {"server": f"http://127.0.0.1:{server.server_address[1]}"}}],
        "users": [{"name": "me", "user": {}}],
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me", "namespace": "calls"}}],
        "current-context": "here",
    }
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    try:
        yield cluster, path
    finally:
        server.stopping = True
        server.shutdown()
        server.server_close()
