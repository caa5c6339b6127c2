"""Where the stock clients are installed, and how a program of theirs is run and heard out."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
HOME_VARIABLE = "DUPLEX_ES_CLIENTS"
RUN_S = 240.0


def clients_home() -> Path:
    """The folder ``install.py`` filled. Skips the test without one; a variable that names no such folder fails it."""
    named = os.environ.get(HOME_VARIABLE)
    if not named:
        pytest.skip(f"the stock clients are not installed: make clients, or {HOME_VARIABLE}=FOLDER")
    home = Path(named).resolve()
    if not (home / "installed").exists():
        pytest.fail(f"{HOME_VARIABLE}={home} holds no stock clients; fill it with tests/clients/install.py")
    return home


def heard_out(program: str, *arguments: str, stdin: str | None = None, **variables: str) -> dict[str, Any]:
    """The JSON report ``program`` of this folder prints last. Fails the test when there is none."""
    home = clients_home()
    by_node = program.endswith(".mjs")
    command = ["node" if by_node else str(home / "python" / "bin" / "python"), str(HERE / program), *arguments]
    environment = {**os.environ, "VLLM_OMNI_CLIENTS": str(home / "upstream"), **variables}
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=RUN_S, env=environment)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        pytest.fail(f"{program} ended with {done.returncode} and no report:\n{done.stderr[-3000:]}")
    report: dict[str, Any] = json.loads(lines[-1])
    return report
