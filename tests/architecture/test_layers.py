"""The layering table of docs/explanation/architecture.md, read from the source tree.

Files are parsed, never imported: the check needs neither a store nor a model.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parents[2]
TOPS = ("duplex_es", "gateway", "workers")

PROTOCOL, MODEL, SESSION, LOG = (f"duplex_es.{name}" for name in ("protocol", "model", "session", "log"))
CLIENT, READING, TIMELINE = (f"duplex_es.{name}" for name in ("client", "reading", "timeline"))
ARCHIVE = "duplex_es.archive"
OBSERVABILITY = "duplex_es.observability"
CORE = {PROTOCOL, MODEL, SESSION, LOG}

# package: (packages of ours it may import, third-party modules it may import)
ALLOWED: dict[str, tuple[set[str], set[str]]] = {
    "duplex_es": (set(), set()),
    PROTOCOL: (set(), {"msgspec", "pybase64"}),
    MODEL: ({PROTOCOL}, {"msgspec"}),
    SESSION: ({PROTOCOL, MODEL}, {"msgspec"}),
    LOG: ({PROTOCOL}, {"redis", "msgpack", "msgspec"}),
    CLIENT: ({PROTOCOL}, {"websockets", "msgspec", "pybase64", "sounddevice"}),
    READING: ({PROTOCOL, LOG}, {"msgspec", "zstandard"}),
    OBSERVABILITY: ({PROTOCOL, LOG}, {"prometheus_client", "opentelemetry"}),
    ARCHIVE: (
        {PROTOCOL, SESSION, LOG, READING, OBSERVABILITY},
        {"msgspec", "zstandard", "fsspec", "pyarrow", "cryptography"},
    ),
    TIMELINE: ({PROTOCOL, LOG, READING}, {"msgspec"}),
    "duplex_es.tools": (
        CORE | {CLIENT, READING, TIMELINE, ARCHIVE, OBSERVABILITY},
        {"msgspec", "websockets", "matplotlib", "zstandard", "numpy", "soxr", "shtab"},
    ),
    "duplex_es.testing": (CORE, {"msgspec", "pytest"}),
    "gateway": ({PROTOCOL, LOG, READING, ARCHIVE, TIMELINE, OBSERVABILITY}, {"starlette", "uvicorn", "uvloop"}),
    "workers": (CORE | {"workers.vad", OBSERVABILITY}, {"msgspec", "numpy", "soxr", "uvloop"}),
    "workers.vad": ({PROTOCOL}, {"numpy", "onnxruntime"}),
    "workers.engine": (set(), {"numpy"}),
    "workers.neural_qwen3omni": ({"workers.engine"}, {"numpy", "torch", "transformers"}),
    "workers.neural_nemotron": (
        {"workers.engine"},
        {"numpy", "torch", "transformers", "safetensors", "tokenizers"},
    ),
    "workers.neural_minicpmo": ({"workers.engine"}, {"numpy", "torch", "transformers", "PIL"}),
    "workers.neural": (
        {"workers.engine"},
        {"numpy", "torch", "triton", "transformers", "safetensors", "sentencepiece"},
    ),
    "workers.models": (
        {PROTOCOL, MODEL, "workers.vad", "workers.engine", "workers.neural", "workers.neural_nemotron"},
        {
            "msgspec",
            "numpy",
            "onnxruntime",
            "ctranslate2",
            "hibari",
            "hibari_tts",
            "httpx",
            "soxr",
            "websockets",
            "cryptography",
        },
    ),
}
# Every package may ask for the version.
ALWAYS = {"duplex_es"}
PURE = {SESSION}
TIMELESS = {PROTOCOL, MODEL}
IMPURE = {"asyncio", "datetime", "os", "random", "secrets", "socket", "threading", "time", "uuid"}


def module_name(path: Path) -> str:
    """``duplex_es.log.api`` for its file; a package's ``__init__`` is the package."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def home(module: str) -> str | None:
    """The table row ``module`` belongs to; ``None`` for code that is not ours."""
    parts = module.split(".")
    prefixes = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    return next((prefix for prefix in prefixes if prefix in ALLOWED), None)


def imports(source: str, path: Path) -> set[str]:
    """Absolute names of all that ``source`` imports, lazily or for types only included."""
    package = path.relative_to(ROOT).parts[:-1]
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else ()
            origin = ".".join([*start, *([node.module] if node.module else [])])
            found |= {f"{origin}.{alias.name}" for alias in node.names}
    return found


def breaches(package: str, source: str, path: Path) -> list[str]:
    """What ``source`` imports against the row of ``package``, one sentence each."""
    ours, third_party = ALLOWED[package]
    found = []
    for module in sorted(imports(source, path)):
        where = f"{path.relative_to(ROOT)} imports {module}"
        top = module.split(".")[0]
        if owner := home(module):
            if owner != package and owner not in ours | ALWAYS:
                found.append(where)
        elif top in sys.stdlib_module_names:
            if package in PURE | TIMELESS and top in IMPURE:
                found.append(f"{where}: this package knows no clock, chance or I/O")
        elif top not in third_party:
            found.append(where)
    return found


def sources(package: str) -> list[Path]:
    """The files whose row is ``package``."""
    files = (ROOT / package.replace(".", "/")).rglob("*.py")
    return sorted(path for path in files if home(module_name(path)) == package)


@pytest.mark.parametrize("package", ALLOWED)
def test_a_package_imports_only_what_its_row_allows(package: str) -> None:
    found = [breach for path in sources(package) for breach in breaches(package, path.read_text(), path)]
    assert not found, "\n".join(found)


def test_every_package_has_a_row() -> None:
    packages = {module_name(path) for top in ("duplex_es", "gateway", "workers") for path in (ROOT / top).rglob("*.py")}
    areas = {".".join(name.split(".")[:2]) for name in packages if name.startswith("duplex_es.")}
    areas |= {f"workers.{path.parent.name}" for path in (ROOT / "workers").glob("*/__init__.py")}
    areas |= {name for name in TOPS if (ROOT / name / "__init__.py").exists()}
    assert areas == set(ALLOWED)


def test_the_table_in_the_documentation_is_this_one() -> None:
    page = (ROOT / "docs/explanation/architecture.md").read_text()
    rows = re.findall(r"^\| `([\w.]+)` \| ([^|]+) \| ([^|]+) \|$", page, re.MULTILINE)
    documented = {package: ({*re.findall(r"[\w.]+", ours)}, words.strip()) for package, ours, words in rows}
    assert set(documented) == set(ALLOWED) - {"duplex_es"}
    for package, (ours, words) in documented.items():
        allowed, third_party = ALLOWED[package]
        assert ours == {name.removeprefix("duplex_es.") for name in allowed}, package
        if package != "workers.models":
            assert {*re.findall(r"\w+", words)} == third_party, package


def test_a_model_never_imports_another_model() -> None:
    entry_points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    models = {target.split(":")[0] for target in entry_points["duplex_es.models"].values()}
    for path in sources("workers.models"):
        for module in imports(path.read_text(), path):
            imported = {model for model in models if f"{module}.".startswith(f"{model}.")}
            assert all(f"{module_name(path)}.".startswith(f"{model}.") for model in imported), (
                f"{path} imports {module}"
            )


@pytest.mark.parametrize(
    ("package", "file", "line"),
    [
        (PROTOCOL, "duplex_es/protocol/x.py", "import time"),
        (PROTOCOL, "duplex_es/protocol/x.py", "from ..session import step"),
        (SESSION, "duplex_es/session/x.py", "from datetime import datetime"),
        (SESSION, "duplex_es/session/x.py", "from duplex_es.log.api import Record"),
        (SESSION, "duplex_es/session/projection/x.py", "from ...log import api"),
        (LOG, "duplex_es/log/x.py", "from ..session.step import fold"),
        (LOG, "duplex_es/log/x.py", "import numpy as np"),
        (CLIENT, "duplex_es/client/x.py", "from ..log.api import Record"),
        ("gateway", "gateway/x.py", "from workers.actor import Actor"),
        ("gateway", "gateway/x.py", "from duplex_es.session import step"),
        ("gateway", "gateway/x.py", "from duplex_es import client"),
        ("workers", "workers/x.py", "def lazily():\n    import onnxruntime"),
        ("workers", "workers/x.py", "from gateway import tokens"),
        ("workers.models", "workers/models/x.py", "from duplex_es.session.state import Session"),
        ("duplex_es.tools", "duplex_es/tools/x.py", "import gateway.cli"),
    ],
)
def test_a_planted_breach_is_found(package: str, file: str, line: str) -> None:
    assert breaches(package, line, ROOT / file)


@pytest.mark.parametrize(
    ("package", "file", "line"),
    [
        (SESSION, "duplex_es/session/projection/x.py", "from ..state import Session"),
        ("workers.models", "workers/models/cascade/x.py", "from ...vad import silero"),
        ("duplex_es.tools", "duplex_es/tools/x.py", "from ..client import DuplexClient\nimport asyncio"),
        (CLIENT, "duplex_es/client/x.py", "from .. import __version__"),
    ],
)
def test_an_allowed_import_is_not_a_breach(package: str, file: str, line: str) -> None:
    assert not breaches(package, line, ROOT / file)
