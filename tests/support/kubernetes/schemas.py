"""Strict schemas of Kubernetes' own kinds for every minor version, and of the operators' kinds."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

import jsonschema

from .chart import TOOLS, Document

GATEWAY_NAME = {"type": "string", "minLength": 1, "maxLength": 253}
DURATION = {"type": "string", "pattern": "^([0-9]{1,5}(h|m|s|ms)){1,4}$"}


def _closed(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": properties, "required": list(required)}


PARENT = _closed(
    {
        **{name: GATEWAY_NAME for name in ("group", "kind", "namespace", "name", "sectionName")},
        "port": {"type": "integer", "minimum": 1, "maximum": 65535},
    },
    "name",
)
PATH_MATCH = _closed({"type": {"enum": ["Exact", "PathPrefix", "RegularExpression"]}, "value": {"type": "string"}})
BACKEND = _closed({"name": GATEWAY_NAME, "port": {"type": "integer", "minimum": 1, "maximum": 65535}}, "name", "port")
HTTP_ROUTE = _closed(
    {
        "apiVersion": {"const": "gateway.networking.k8s.io/v1"},
        "kind": {"const": "HTTPRoute"},
        "metadata": {"type": "object"},
        "spec": _closed(
            {
                "parentRefs": {"type": "array", "minItems": 1, "maxItems": 32, "items": PARENT},
                "hostnames": {
                    "type": "array",
                    "maxItems": 16,
                    "items": {"type": "string", "pattern": r"^(\*\.)?[a-z0-9.-]+$"},
                },
                "rules": {
                    "type": "array",
                    "minItems": 1,
                    "items": _closed(
                        {
                            "matches": {"type": "array", "items": _closed({"path": PATH_MATCH})},
                            "timeouts": _closed({"request": DURATION, "backendRequest": DURATION}),
                            "backendRefs": {"type": "array", "minItems": 1, "items": BACKEND},
                        },
                        "backendRefs",
                    ),
                },
            },
            "parentRefs",
            "rules",
        ),
    },
    "apiVersion",
    "kind",
    "metadata",
    "spec",
)
"""What the chart writes of a HTTPRoute, in its own words: no strict schema of the Gateway API is in a package index."""


@cache
def _definitions(folder: str) -> dict[str, Any]:
    """The definitions of one version, each in the place of every reference to it: some come back to themselves."""
    held: dict[str, Any] = json.loads((TOOLS / "schemas" / "kubernetes" / folder / "_definitions.json").read_text())
    for definition in held["$defs"].values():
        _join(definition, held["$defs"])
    return dict(held["$defs"])


def _join(schema: Any, definitions: dict[str, Any]) -> None:
    """Put what its references name in their place: following them anew for each object takes seconds."""
    for key, part in list(schema.items() if isinstance(schema, dict) else enumerate(schema)):
        if isinstance(part, dict) and isinstance(part.get("$ref"), str):
            schema[key] = definitions[part["$ref"].rpartition("/")[2]]
        elif isinstance(part, dict | list):
            _join(part, definitions)


@cache
def validator(kind: str, version: str, minor: int) -> jsonschema.Draft202012Validator | None:
    """The validator of one kind, ``None`` when there is no schema."""
    if (kind, version) == ("HTTPRoute", "gateway.networking.k8s.io/v1"):
        return jsonschema.Draft202012Validator(HTTP_ROUTE)
    operators = TOOLS / "schemas" / f"{version.replace('/', '_')}_{kind}.json".lower()
    if operators.exists():
        return jsonschema.Draft202012Validator(json.loads(operators.read_text()))
    folder = f"v1.{minor}.0-local-strict"
    group = re.sub(r"^([^./]*)(?:\.[^/]*)?/", r"\1-", version)
    path = TOOLS / "schemas" / "kubernetes" / folder / f"{kind.lower()}-{group}.json"
    if not path.exists():
        return None
    schema = json.loads(path.read_text())
    _join(schema, _definitions(folder))
    return jsonschema.Draft202012Validator(schema)


def schema_errors(document: Document, minor: int) -> list[str]:
    """Everything that Kubernetes 1.``minor`` or an operator would refuse in ``document``."""
    found = validator(document["kind"], document["apiVersion"], minor)
    if found is None:
        return [f"there is no {document['kind']} in {document['apiVersion']}"]
    return [
        f"{'.'.join(map(str, error.absolute_path))}: {error.message[:200]}" for error in found.iter_errors(document)
    ]
