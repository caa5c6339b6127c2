"""Bodies of requests: patches of three kinds, and the protobuf in which Helm writes its releases."""

from __future__ import annotations

import base64
import copy
from collections.abc import Iterator
from typing import Any

MAGIC = b"k8s\0"
OF_MAPS = {1: "name", 3: "namespace", 6: "resourceVersion"}
OF_PAIRS = {11: "labels", 12: "annotations"}


MERGE_KEYS = {
    **dict.fromkeys(("containers", "initContainers", "volumes", "env", "imagePullSecrets"), ("name",)),
    "ports": ("containerPort", "port"),
    "volumeMounts": ("mountPath",),
    "topologySpreadConstraints": ("topologyKey",),
    "ownerReferences": ("uid",),
}
"""Lists whose elements a strategic merge tells apart, and by which of their keys; all others it replaces."""


def merged(old: Any, new: Any, *, strategic: bool) -> Any:
    """``old`` after a merge patch; a strategic one also merges lists of the kinds in ``MERGE_KEYS``."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    made = {key: value for key, value in old.items() if key in new.get("$retainKeys", old)}
    for key, value in new.items():
        if key.startswith("$"):
            continue
        if value is None:
            made.pop(key, None)
        elif strategic and key in MERGE_KEYS and isinstance(value, list):
            made[key] = _merged_list(old.get(key) or [], value, MERGE_KEYS[key])
        else:
            made[key] = merged(made.get(key, {}), value, strategic=strategic) if isinstance(value, dict) else value
    return made


def _merged_list(old: list[Any], new: list[Any], keys: tuple[str, ...]) -> list[Any]:
    def which(part: dict[str, Any]) -> Any:
        return next(part[key] for key in keys if key in part)

    held = {which(part): part for part in old}
    for part in new:
        if part.get("$patch") == "delete":
            held.pop(which(part), None)
        else:
            held[which(part)] = merged(held.get(which(part), {}), part, strategic=True)
    return list(held.values())


def patched(old: dict[str, Any], operations: list[dict[str, Any]]) -> dict[str, Any]:
    """``old`` after a JSON patch."""
    made = copy.deepcopy(old)
    for operation in operations:
        *above, last = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
        target: Any = made
        for part in above:
            target = target[int(part)] if isinstance(target, list) else target[part]
        place: Any = last
        if isinstance(target, list):
            place = len(target) if last == "-" else int(last)
        if operation["op"] == "remove":
            target.pop(place)
        elif operation["op"] == "add" and isinstance(target, list):
            target.insert(place, operation["value"])
        else:
            target[place] = operation["value"]
    return made


def from_protobuf(body: bytes) -> dict[str, Any]:
    """A Secret or ConfigMap, in which releases are kept. Raises: ValueError for other kinds."""
    envelope = dict(_fields(body[len(MAGIC) :]))
    described = dict(_fields(envelope[1]))
    kind = described.get(2, b"").decode()
    if kind not in ("Secret", "ConfigMap"):
        raise ValueError(f"a {kind} in protobuf")
    made: dict[str, Any] = {"apiVersion": described.get(1, b"v1").decode(), "kind": kind, "metadata": {}}
    for number, value in _fields(envelope.get(2, b"")):
        if number == 1:
            made["metadata"] = _metadata(value)
        elif number == 2:
            pair = dict(_fields(value))
            held = pair.get(2, b"")
            made.setdefault("data", {})[pair[1].decode()] = (
                base64.b64encode(held).decode() if kind == "Secret" else held.decode()
            )
        elif number == 3 and kind == "Secret":
            made["type"] = value.decode()
    return made


def _metadata(body: bytes) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for number, value in _fields(body):
        if number in OF_MAPS and value:
            made[OF_MAPS[number]] = value.decode()
        elif number in OF_PAIRS:
            pair = dict(_fields(value))
            made.setdefault(OF_PAIRS[number], {})[pair[1].decode()] = pair.get(2, b"").decode()
    return made


def _fields(body: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of a protobuf message: number and bytes, or number and integer."""
    at = 0
    while at < len(body):
        tag, at = _varint(body, at)
        if tag & 7 == 0:
            value, at = _varint(body, at)
            yield tag >> 3, value
            continue
        size = {1: 8, 5: 4}.get(tag & 7)
        if size is None:
            size, at = _varint(body, at)
        yield tag >> 3, body[at : at + size]
        at += size


def _varint(body: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = body[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at
