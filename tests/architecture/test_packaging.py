"""What gets installed: a wheel is built from a copy of the sources, and looked into."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parents[2]
TOPS = ("duplex_es", "gateway", "workers")


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    return dict(tomllib.loads((ROOT / "pyproject.toml").read_text()))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The built wheel. The copy keeps setuptools' leftovers out of the checkout."""
    source = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for name in TOPS:
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    target = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", str(target)]
    built = subprocess.run([*command, str(source)], capture_output=True, text=True, timeout=60, check=False)
    assert built.returncode == 0, built.stderr
    return zipfile.ZipFile(next(target.glob("*.whl")))


def names(wheel: zipfile.ZipFile) -> set[str]:
    return {name for name in wheel.namelist() if ".dist-info/" not in name}


def test_the_wheel_holds_exactly_the_three_packages(wheel: zipfile.ZipFile) -> None:
    assert {name.split("/")[0] for name in names(wheel)} == set(TOPS)


def test_every_source_file_and_script_is_in_the_wheel(wheel: zipfile.ZipFile) -> None:
    patterns = ("*.py", "*.lua", "py.typed")
    expected = {
        str(path.relative_to(ROOT)) for top in TOPS for pattern in patterns for path in (ROOT / top).rglob(pattern)
    }
    assert expected == {name for name in names(wheel) if name.endswith((".py", ".lua", "py.typed"))}


def test_every_other_file_beside_the_sources_is_in_the_wheel_too(wheel: zipfile.ZipFile) -> None:
    files = (path for top in TOPS for path in (ROOT / top).rglob("*") if path.is_file())
    expected = {str(path.relative_to(ROOT)) for path in files if "__pycache__" not in path.parts}
    assert expected == names(wheel)


def test_all_three_packages_are_typed(wheel: zipfile.ZipFile) -> None:
    assert {f"{top}/py.typed" for top in TOPS} <= names(wheel)


def test_the_licence_travels(wheel: zipfile.ZipFile) -> None:
    [path] = [name for name in wheel.namelist() if name.endswith("/LICENSE")]
    assert b"Apache License" in wheel.read(path)


def resolve(target: str) -> Any:
    module, attribute = target.split(":")
    return getattr(import_module(module), attribute)


def test_every_script_and_every_model_entry_point_leads_to_something_to_call(project: dict[str, Any]) -> None:
    scripts = project["project"]["scripts"]
    assert set(scripts) == {"duplex-es", "duplex-es-gateway", "duplex-es-worker"}
    models = project["project"]["entry-points"]["duplex_es.models"]
    assert {"cascade", "echo", "scripted"} <= set(models)
    for target in (*scripts.values(), *models.values()):
        assert callable(resolve(target)), target


def test_the_weights_are_pinned_by_version_and_by_content_alike(project: dict[str, Any]) -> None:
    pinned = {line for line in project["project"]["optional-dependencies"]["cascade"] if "==" in line}
    lines = (ROOT / "deploy/requirements/cascade-data.txt").read_text().splitlines()
    assert pinned == {line.split()[0] for line in lines if "==" in line}
    assert sum("--hash=sha256:" in line for line in lines) >= len(pinned)


def loaded_by(module: str) -> set[str]:
    """The top-level modules that importing ``module`` brings into a fresh Python."""
    code = f"import sys, {module}; print(*{{name.split('.')[0] for name in sys.modules}})"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    return set(found.stdout.split())


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("duplex_es.client", {"redis", "starlette", "uvicorn", "numpy", "onnxruntime", "ctranslate2"}),
        ("gateway.cli", {"numpy", "onnxruntime", "ctranslate2", "soxr", "workers"}),
        ("duplex_es.session.step", {"asyncio", "redis", "numpy"}),
        ("workers.cli", {"starlette", "uvicorn", "gateway"}),
    ],
)
def test_a_part_loads_nothing_of_the_others(module: str, absent: set[str]) -> None:
    assert not loaded_by(module) & absent
