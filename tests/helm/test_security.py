"""A scanner that knows none of this project finds nothing in what the chart makes, whatever is turned on."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.support.kubernetes.chart import CASES, Document, rendered, run, tool

pytestmark = [pytest.mark.helm, pytest.mark.timeout(300)]

NO_CPU_LIMIT = "KSV011"
"""Taken on: a limit on processors makes sound late at the very moment when there is much of it."""
OWN_CONTAINERS = {"voice-gateway": ("wait", "proxy"), "voice-worker-cascade": ("wait",)}
"""Of ci/everything.yaml: containers that the user brings, with what the user gives them."""


def failures(folder: Path) -> list[tuple[str, str]]:
    """What trivy finds in the manifests of ``folder``: the rule and the sentence."""
    said = run(tool("trivy"), "config", "--skip-check-update", "--quiet", "--format", "json", str(folder))
    results = json.loads(said).get("Results") or []
    assert results, said
    return [
        (found["ID"], found["Message"])
        for result in results
        for found in result.get("Misconfigurations") or []
        if found["Status"] == "FAIL"
    ]


def written(folder: Path, documents: list[Document]) -> Path:
    """A folder with the documents in a file."""
    (folder / "manifests.yaml").write_text(yaml.safe_dump_all(documents))
    return folder


@pytest.mark.parametrize("values", CASES)
def test_the_scanner_finds_nothing(values: str, tmp_path: Path) -> None:
    found = failures(written(tmp_path, list(rendered(values))))
    theirs = [
        f"Container '{name}' of Deployment '{where}'" for where, names in OWN_CONTAINERS.items() for name in names
    ]
    assert [each for each in found if each[0] != NO_CPU_LIMIT and not each[1].startswith(tuple(theirs))] == []


def test_the_scanner_finds_what_is_there(tmp_path: Path) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "open"},
        "spec": {"containers": [{"name": "all", "image": "all", "securityContext": {"privileged": True}}]},
    }
    assert "KSV017" in [rule for rule, _ in failures(written(tmp_path, [pod]))]


def test_the_linter_of_images_takes_the_dockerfiles() -> None:
    """Every image that the chart runs is built from one of these."""
    files = sorted((Path(__file__).resolve().parents[2] / "deploy" / "docker").glob("*.Dockerfile"))
    assert files
    ran = subprocess.run([tool("hadolint"), *map(str, files)], capture_output=True, text=True, timeout=240, check=False)
    assert ran.stdout == ""
