"""The client by itself: installed as a user would, into an environment that has nothing else."""

from __future__ import annotations

import json
import resource
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.packaging, pytest.mark.timeout(300)]

ROOT = Path(__file__).resolve().parents[2]
CLIENT_NEEDS = {"duplex-es", "msgspec", "pybase64", "websockets"}
# What a new environment has of its own.
TOOLS = {"pip", "setuptools"}
SERVERS_NEED = ("redis", "starlette", "uvicorn", "numpy", "torch", "onnxruntime", "ctranslate2", "openai")
IMPORT_LIMIT_MS = 150
STARTS = 15

CONVERSATION = """
import asyncio, json
from websockets.asyncio.server import serve
from duplex_es.client import DuplexClient, SyncDuplexClient
from duplex_es.client.presets.minicpmo_4_5 import create_duplex_session_config

async def answer(socket):
    async for message in socket:
        said = json.loads(message)["type"]
        if said == "session.update":
            await socket.send(json.dumps({"type": "session.created", "session": {"id": "s"}}))
        if said == "session.close":
            await socket.send(json.dumps({"type": "session.closed", "reason": "session_close"}))
            return

async def main():
    async with serve(answer, "127.0.0.1", 0) as server:
        url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with DuplexClient(url, model="m", config=create_duplex_session_config()) as client:
            await client.stream_pcm(bytes(3200), realtime=False)
            print(client.session_id)

asyncio.run(main())
"""


def run(*command: str | Path) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, f"{command}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a new environment with ``pip install duplex-es`` in it, no extras, from a built wheel."""
    source, home = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("home")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for name in ("duplex_es", "gateway", "workers"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", home, source)
    [wheel] = home.glob("*.whl")
    run(sys.executable, "-m", "venv", home / "venv")
    python = home / "venv" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel)
    return python


def test_nothing_is_installed_but_what_the_client_needs(python: Path) -> None:
    listed = json.loads(run(python, "-m", "pip", "--disable-pip-version-check", "list", "--format", "json"))
    assert {package["name"].lower().replace("_", "-") for package in listed} - TOOLS == CLIENT_NEEDS


@pytest.mark.parametrize("module", SERVERS_NEED)
def test_a_servers_module_is_not_there(python: Path, module: str) -> None:
    found = run(python, "-c", f"import importlib.util; print(importlib.util.find_spec({module!r}))")
    assert found.strip() == "None"


def test_the_client_converses_there(python: Path) -> None:
    assert run(python, "-c", CONVERSATION).strip() == "s"


def test_microphone_and_speaker_say_what_is_missing(python: Path) -> None:
    code = """
from duplex_es.client.devices import DevicesMissing, sound_library
try:
    sound_library()
except DevicesMissing as error:
    print(error)
"""
    assert "pip install 'duplex-es[devices]'" in run(python, "-c", code)


def start_ms(python: Path, code: str) -> float:
    """What one start costs, in processor time: the clock on the wall would count what else this machine does."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run(python, "-c", code)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000


def test_importing_the_client_is_quick(python: Path, record_property: pytest.RecordProperty) -> None:
    run(python, "-c", "import duplex_es.client")  # leaves the compiled files behind
    bare, loaded = [], []
    for _ in range(STARTS):
        bare.append(start_ms(python, "pass"))
        loaded.append(start_ms(python, "import duplex_es.client"))
    took_ms = statistics.median(loaded) - statistics.median(bare)
    record_property("import_ms", round(took_ms, 1))
    print(f"\nimporting duplex_es.client: {took_ms:.0f} ms over a bare interpreter")
    assert took_ms < IMPORT_LIMIT_MS
