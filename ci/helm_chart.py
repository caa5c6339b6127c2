"""Writes what is generated of ``helm/duplex-es``: ``values.schema.json`` and the table of ``README.md``.

Both come from values.yaml, its comments and the settings of gateway and worker; ``--check`` only compares.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

# Its own folder: a test loads this file from elsewhere.
sys.path.insert(0, str(Path(__file__).parent))

from helm_values import Value, read_values

from gateway.settings import Settings
from workers.deployments import SESSION, TOP
from workers.settings import WorkerSettings

CHART = Path(__file__).resolve().parents[1] / "helm" / "duplex-es"
Schema = dict[str, Any]

OWNED = {
    *("host", "port", "redis_url", "name", "default_model", "drain_s", "durability", "replicas", "log_format"),
    *("log_level", "otlp_endpoint", "metrics_host", "metrics_port", "pages", "operator_token_file", "operator_token"),
    *("deployment", "model", "model_option", "health_host", "health_port", *TOP),
    *(setting for setting, _ in SESSION.values()),
}
"""Settings that have a place of their own in values.yaml, and so none among ``settings``."""

ANY: Schema = {}
MAP: Schema = {"type": "object"}
TEXTS: Schema = {"type": "object", "additionalProperties": {"type": "string"}}
LIST: Schema = {"type": "array"}
OBJECTS: Schema = {"type": "array", "items": {"type": "object"}}
STRINGS: Schema = {"type": "array", "items": {"type": "string"}}
NODE_PATTERN = r"^([^\s:/,]+|\[[0-9a-fA-F:]+\])(:[0-9]{1,5})?$"
NODES: Schema = {"type": "array", "items": {"type": "string", "pattern": NODE_PATTERN}}
PORT: Schema = {"type": "integer", "minimum": 1, "maximum": 65535}
DIGEST: Schema = {"type": "string", "pattern": "^$|^sha256:[0-9a-f]{64}$"}
SIZE: Schema = {"type": "string", "pattern": "^[0-9]+([.][0-9]+)?(Ki|Mi|Gi|Ti|k|M|G|T)?$"}
SHARE: Schema = {"type": ["integer", "string"], "minimum": 0, "pattern": "^[0-9]+%$"}
SETTING_NAME = "^[a-z][a-z0-9_]*$"


def choice(*names: str) -> Schema:
    """One of ``names``."""
    return {"enum": list(names)}


def whole(least: int, most: int | None = None) -> Schema:
    """A whole number from ``least`` to ``most``."""
    return {"type": "integer", "minimum": least} | ({} if most is None else {"maximum": most})


def closed(properties: Mapping[str, Schema], *required: str) -> Schema:
    """A map of ``properties`` and no others."""
    made: Schema = {"type": "object", "additionalProperties": False, "properties": dict(properties)}
    return made | ({"required": list(required)} if required else {})


PROBE = closed(
    {
        "periodSeconds": whole(1),
        "timeoutSeconds": whole(1),
        "failureThreshold": whole(1),
        "successThreshold": whole(1, 1),
        "initialDelaySeconds": whole(0),
    }
)
STRATEGY = closed(
    {
        "type": choice("RollingUpdate", "Recreate"),
        "rollingUpdate": closed({"maxUnavailable": SHARE, "maxSurge": SHARE}),
    }
)
BEHAVIOR = closed({"scaleUp": MAP, "scaleDown": MAP})
FALLBACK = closed({"failureThreshold": whole(1), "replicas": whole(0), "behavior": {"type": "string"}}) | {
    "dependencies": {"failureThreshold": ["replicas"], "replicas": ["failureThreshold"]}
}
PATH = closed(
    {
        "path": {"type": "string", "pattern": "^/"},
        "pathType": choice("Prefix", "Exact", "ImplementationSpecific"),
    },
    "path",
)
HOST = closed({"host": {"type": "string", "minLength": 1}, "paths": {"type": "array", "items": PATH}}, "host")

# What a default does not say of a value: by its whole path, or by the end of it.
RULES: Mapping[str, Schema] = {
    "global.imagePullSecrets": STRINGS,
    "log.format": choice("json", "text"),
    "log.level": choice("debug", "info", "warning", "error"),
    "durability.level": choice("memory", "standard", "strict"),
    "redis.mode": choice("standalone", "sentinel", "cluster"),
    "redis.port": PORT,
    "redis.sentinel.nodes": NODES,
    "redis.cluster.nodes": NODES,
    "redis.tls.verify": choice("required", "optional", "none"),
    "redis.parameters": {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}},
    "gateway.replicas": whole(1),
    "gateway.drain.settleSeconds": whole(6),
    "gateway.service.type": choice("ClusterIP", "NodePort", "LoadBalancer"),
    "gateway.service.port": PORT,
    "gateway.service.nodePort": PORT | {"type": ["integer", "null"]},
    "gateway.service.externalTrafficPolicy": choice("", "Cluster", "Local"),
    "gateway.service.loadBalancerSourceRanges": STRINGS,
    "gateway.ingress.controller": choice("nginx", "haproxy", "traefik", "alb", "none"),
    "gateway.ingress.timeoutSeconds": whole(30),
    "gateway.ingress.hosts": {"type": "array", "items": HOST},
    "gateway.httpRoute.hostnames": STRINGS,
    "gateway.httpRoute.requestTimeout": {"type": "string", "pattern": "^([0-9]+(h|m|s|ms))+$"},
    "gateway.httpRoute.backendRequestTimeout": {"type": "string", "pattern": "^([0-9]+(h|m|s|ms))+$"},
    "gateway.autoscaling.minReplicas": whole(1),
    "gateway.autoscaling.connectionsPerPod": whole(1),
    "gateway.autoscaling.cpuPercent": whole(0, 100),
    "workerDefaults.slots": whole(1),
    "workerDefaults.drain.settleSeconds": whole(5),
    "workerDefaults.options": {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}},
    "workerDefaults.secretOptions": {
        "type": "object",
        "propertyNames": {"pattern": SETTING_NAME},
        "additionalProperties": closed({"secret": {"type": "string"}, "key": {"type": "string"}}, "secret", "key"),
    },
    "workerDefaults.probes.startupBudgetSeconds": whole(10),
    "workerDefaults.gpu.count": whole(0, 16),
    "workerDefaults.modelCache.mountPath": {"type": "string", "pattern": "^/"},
    "workerDefaults.modelCache.accessModes": {
        "type": "array",
        "minItems": 1,
        "items": choice("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"),
    },
    "workerDefaults.autoscaling.targetUtilization": {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
    "tracing.endpoint": {"type": "string", "pattern": "^$|^https?://"},
    "archive.everySeconds": {"type": "number", "exclusiveMinimum": 0},
    "archive.keepSeconds": {"type": "number", "minimum": 0},
    "archive.volume.mountPath": {"type": "string", "pattern": "^/"},
    "autoscaling.prometheusAddress": {"type": "string", "pattern": "^$|^https?://"},
    "networkPolicy.extraIngress": OBJECTS,
    "networkPolicy.extraEgress": OBJECTS,
    "metrics.interval": {"type": "string", "pattern": "^[0-9]+(ms|s|m)$"},
    "metrics.scrapeTimeout": {"type": "string", "pattern": "^[0-9]+(ms|s|m)$"},
    "test.timeoutSeconds": whole(10),
    "extraManifests": {"type": "array", "items": {"type": ["object", "string"]}},
}
ENDINGS: Mapping[str, Schema] = {
    "image.digest": DIGEST,
    "image.pullPolicy": choice("Always", "IfNotPresent", "Never"),
    "image.repository": {"type": "string", "minLength": 1},
    "port": PORT,
    "metricsPort": PORT,
    "healthPort": PORT,
    "terminationGracePeriodSeconds": {"type": ["integer", "null"], "minimum": 1},
    "strategy": STRATEGY,
    "pdb.maxUnavailable": SHARE,
    "autoscaling.mode": choice("none", "hpa", "keda"),
    "autoscaling.maxReplicas": whole(1),
    "autoscaling.behavior": BEHAVIOR,
    "keda.pollingInterval": whole(1),
    "keda.fallback": FALLBACK,
    "probes.startup": PROBE,
    "probes.readiness": PROBE,
    "probes.liveness": PROBE,
    "resources": closed({"requests": MAP, "limits": MAP, "claims": LIST}),
    "size": SIZE,
    "tmpSize": SIZE,
    "extraArgs": STRINGS,
    "commonLabels": TEXTS,
    "podLabels": TEXTS,
    "labels": TEXTS,
    "additionalLabels": TEXTS,
    "nodeSelector": TEXTS,
    "annotations": TEXTS,
    "podAnnotations": TEXTS,
    "commonAnnotations": TEXTS,
}


def settings_schema(settings: type, owned: set[str]) -> Schema:
    """The settings of a program that have no place of their own in the values."""
    properties: dict[str, Schema] = {}
    for option in fields(settings):
        if option.name in owned or not isinstance(option.default, str | int | float):
            continue
        kind = {str: "string", int: "integer", float: "number"}[type(option.default)]
        allowed = option.metadata["choices"]
        rule: Schema = {"enum": list(allowed)} if allowed else {"type": kind}
        properties[option.name] = rule | {"description": option.metadata["help"]}
    return closed(properties)


def rule_of(value: Value) -> Schema:
    """What is allowed for ``value``: its own rule, that of its end, or what its default suggests."""
    if value.name in ("gateway.settings", "workerDefaults.settings"):
        return settings_schema(Settings if value.path[0] == "gateway" else WorkerSettings, OWNED)
    if value.name in RULES:
        return RULES[value.name]
    for length in (2, 1):
        if (ending := ".".join(value.path[-length:])) in ENDINGS:
            return ENDINGS[ending]
    match value.default:
        case bool():
            return {"type": "boolean"}
        case int():
            return whole(0)
        case str():
            return {"type": "string"}
        case list():
            return OBJECTS
        case dict():
            return MAP
    return ANY


def schema_of(values: Sequence[Value], path: tuple[str, ...] = ()) -> Schema:
    """The schema of the section at ``path``."""
    properties: dict[str, Schema] = {}
    for value in values:
        if value.path[:-1] != path:
            continue
        rule = schema_of(values, value.path) if value.is_section else rule_of(value)
        properties[value.path[-1]] = rule | ({"description": value.text} if value.text else {})
    return closed(properties)


def chart_schema(values: Sequence[Value]) -> Schema:
    """The whole schema. ``global`` and ``enabled`` are a parent chart's to set."""
    schema = schema_of(values)
    properties = schema["properties"]
    properties["global"] = properties["global"] | {"additionalProperties": True}
    properties["enabled"] = {"type": "boolean", "description": "a parent chart's condition; not looked at here"}
    # Known, to be refused with its new name rather than as unknown.
    properties["keda"] = {"description": "now autoscaling"}
    properties["workers"] = {
        "type": "object",
        "description": properties["workers"]["description"],
        "propertyNames": {"pattern": "^[a-z]([-a-z0-9]{0,13}[a-z0-9])?$"},
        "additionalProperties": {"$ref": "#/definitions/pool"},
    }
    # No `oneOf` anywhere: its complaints name everything but the mistake.
    pool = properties["workerDefaults"] | {"type": ["object", "null"]}
    properties["workerDefaults"] = {"$ref": "#/definitions/pool"}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Values of the chart duplex-es",
        **schema,
        "definitions": {"pool": pool},
    }


def readme_table(values: Sequence[Value]) -> str:
    """Every value with its default and its text, by section; those at the top come first."""
    sections = ["", *dict.fromkeys(value.path[0] for value in values if len(value.path) > 1)]
    lines: list[str] = []
    for section in sections:
        lines += [f"### {section or 'At the top'}", "", "| value | default | meaning |", "|---|---|---|"]
        for value in values:
            if not value.is_section and (value.path[0] if len(value.path) > 1 else "") == section:
                default = json.dumps(value.default, ensure_ascii=False)
                lines.append(f"| `{value.name}` | `{default}` | {value.text.replace('|', '&#124;')} |")
        lines.append("")
    return "\n".join(lines).strip() + "\n"


def written(values: Sequence[Value]) -> dict[Path, str]:
    """Every generated file with its text."""
    readme = CHART / "README.md"
    head, mark, _ = readme.read_text().partition("<!-- values: generated by ci/helm_chart.py -->\n")
    if not mark:
        raise ValueError(f"{readme} has no mark for the table of values")
    return {
        CHART / "values.schema.json": json.dumps(chart_schema(values), indent=1, ensure_ascii=False) + "\n",
        readme: head + mark + "\n" + readme_table(values),
    }


def main() -> int:
    """Write, or with ``--check`` compare. The exit status is 1 when a file is stale."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a file is stale")
    check = parser.parse_args().check
    stale = [
        (path, text)
        for path, text in written(read_values(CHART / "values.yaml")).items()
        if not path.exists() or path.read_text() != text
    ]
    for path, text in stale:
        if check:
            print(f"{path.name} is stale: run `make helm-docs`", file=sys.stderr)
        else:
            path.write_text(text)
            print(f"wrote {path}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
