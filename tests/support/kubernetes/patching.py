"""Bodies of requests: patches of three kinds, and the protobuf in which Helm writes its releases."""

from __future__ import annotations

import base64
import copy
from collections.abc import Iterator
from typing import Any

MAGIC = b"k8s\0"
OF_MAPS = {1: "name", 3: "namespace", 6: "resourceVersion"}
OF_PAIRS = {11: "labels", 12: "annotations"}


def merged(old: Any, new: Any) -> Any:
    """``old`` after a merge patch; lists of named objects are merged by their names, as a strategic one does."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    made = dict(old)
    for key, value in new.items():
        if key.startswith("$"):
            continue
        if value is None:
            made.pop(key, None)
        elif isinstance(value, list) and isinstance(old.get(key), list) and _all_named(value + old[key]):
            made[key] = _merged_by_name(old[key], value)
        else:
            made[key] = merged(made.get(key, {}), value) if isinstance(value, dict) else value
    return made


def _all_named(parts: list[Any]) -> bool:
    return bool(parts) and all(isinstance(part, dict) and "name" in part for part in parts)


def _merged_by_name(old: list[Any], new: list[Any]) -> list[Any]:
    held = {each["name"]: each for each in old}
    for each in new:
        if each.get("$patch") == "delete":
            held.pop(each["name"], None)
        else:
            held[each["name"]] = merged(held.get(each["name"], {}), each)
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
