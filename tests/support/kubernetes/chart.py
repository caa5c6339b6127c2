"""The chart and the two helms that render it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[3]
CHART = ROOT / "helm" / "duplex-es"
PREVIOUS = ROOT / "tests" / "helm" / "previous" / "duplex-es-0.1.0.tgz"
TOOLS = Path(os.environ.get("DUPLEX_ES_TOOLS", ".tools"))
TOOLS = TOOLS if TOOLS.is_absolute() else ROOT / TOOLS
HELMS = ("helm", "helm3")
MINORS = range(29, 38)
CASES = tuple(sorted(path.stem for path in (CHART / "ci").glob("*.yaml")))
Document = dict[str, Any]


class Refused(Exception):
    """Helm would not; the message is its own."""


def tool(name: str) -> str:
    """Where a program of ``ci/helm_tools.sh`` is. Raises: RuntimeError when it has not been installed."""
    path = TOOLS / "bin" / name
    if not path.exists():
        raise RuntimeError(f"{path} is missing: run ci/helm_tools.sh, or `make helm`, which does")
    return str(path)


def run(*command: str, **environment: str) -> str:
    """What ``command`` prints. Raises: Refused with what it says on stderr."""
    # Not the caller's plugins, repositories and clusters.
    own = {"HELM_CACHE_HOME": "/tmp/none", "HELM_CONFIG_HOME": "/tmp/none", "HELM_DATA_HOME": "/tmp/none"}
    ran = subprocess.run(
        command, capture_output=True, text=True, timeout=240, check=False, env=os.environ | own | environment
    )
    if ran.returncode:
        raise Refused(ran.stderr + ran.stdout)
    return ran.stdout


def case(name: str) -> Path:
    """The values file ``ci/<name>.yaml``."""
    return CHART / "ci" / f"{name}.yaml"


@cache
def rendered(name: str, *, helm: str = "helm", minor: int = 36, chart: Path = CHART) -> tuple[Document, ...]:
    """The objects that the chart makes of ``ci/<name>.yaml``. Shared: copy before changing one."""
    return tuple(render("-f", str(case(name)), helm=helm, minor=minor, chart=chart))


def render(*arguments: str, helm: str = "helm", minor: int = 36, chart: Path = CHART) -> Sequence[Document]:
    """The objects that the chart makes of further ``helm template`` arguments. Raises: Refused."""
    text = run(
        tool(helm),
        "template",
        "voice",
        str(chart),
        "--namespace",
        "calls",
        "--kube-version",
        f"1.{minor}.0",
        *arguments,
    )
    return [document for document in yaml.load_all(text, Loader=yaml.CSafeLoader) if document]


def refusal(*arguments: str, helm: str = "helm") -> str:
    """Why the chart does not take ``arguments``. Raises: AssertionError when it does."""
    try:
        render(*arguments, helm=helm)
    except Refused as refused:
        return str(refused)
    raise AssertionError(f"it renders with {arguments}")


def of_kind(documents: Sequence[Document], kind: str) -> list[Document]:
    """Those of one kind."""
    return [document for document in documents if document["kind"] == kind]


def named(documents: Sequence[Document], kind: str, name: str) -> Document:
    """The one of a kind whose name ends with ``name``. Raises: AssertionError when there is not exactly one."""
    found = [each for each in of_kind(documents, kind) if each["metadata"]["name"].endswith(name)]
    assert len(found) == 1, [each["metadata"]["name"] for each in of_kind(documents, kind)]
    return found[0]


def container(document: Document) -> Document:
    """The first container of a workload."""
    first: Document = document["spec"]["template"]["spec"]["containers"][0]
    return first


def environment(document: Document) -> dict[str, Any]:
    """The variables of the first container of a workload; of a reference, the reference."""
    return {each["name"]: each.get("value", each.get("valueFrom")) for each in container(document)["env"]}
