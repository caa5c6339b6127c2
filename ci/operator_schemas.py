"""Writes strict JSON schemas of the operators' kinds that the chart makes; run by the interpreter of ci/helm_tools.sh.

``operator_schemas.py DIR`` writes ``DIR/<group>_<version>_<kind>.json``, all in lower case. Strict: a key that the
kind does not know is an error, as it is for an API server that prunes unknown fields and a client that validates.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

KINDS = {
    ("monitoring.coreos.com", "v1", "cloudcoil.models.prometheus_operator.v1"): (
        "ServiceMonitor",
        "PodMonitor",
        "PrometheusRule",
    ),
    ("keda.sh", "v1alpha1", "cloudcoil.models.keda.v1alpha1"): ("ScaledObject", "TriggerAuthentication"),
}


def strict(schema: Any) -> Any:
    """``schema`` with every object that lists its properties closed to others."""
    if isinstance(schema, dict):
        if schema.get("type") == "object" and "properties" in schema:
            schema.setdefault("additionalProperties", False)
        for part in schema.values():
            strict(part)
    elif isinstance(schema, list):
        for part in schema:
            strict(part)
    return schema


def main(directory: Path) -> None:
    """Write every schema into ``directory``."""
    for (group, version, module), kinds in KINDS.items():
        for kind in kinds:
            schema = strict(getattr(import_module(module), kind).model_json_schema(by_alias=True))
            (directory / f"{group}_{version}_{kind}.json".lower()).write_text(json.dumps(schema))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
