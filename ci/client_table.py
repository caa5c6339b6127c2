"""The table of the stock clients that are run against the service: from their pins and their programs."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from wire_catalogue import table

ROOT = Path(__file__).resolve().parents[1]
PROGRAMS = ROOT / "tests" / "clients"
PINS = ROOT / "deploy" / "requirements"
PIN = re.compile(r"(?P<name>@?[\w/.-]+?)(?:\[[\w,-]+\])?(?:==|@)(?P<version>\d[\w.]*)")
BEYOND = {"run_upstream_duplex_client.py": "; resume after a lost socket"}
PACKAGES = {
    "run_openai.py": ("openai", "ga"),
    "run_openai_beta.py": ("openai", "beta"),
    "run_openai_agents.py": ("openai-agents", "ga"),
    "run_pipecat.py": ("pipecat-ai", "ga"),
    "run_livekit.py": ("livekit-plugins-openai", "ga"),
    "run_pydantic_ai.py": ("pydantic-ai-slim", "ga"),
    "run_upstream_duplex_client.py": ("vllm-omni", "duplex"),
    "run_agents_realtime.mjs": ("@openai/agents-realtime", "ga"),
    "run_openai_node.mjs": ("openai (Node)", "ga, over TLS"),
}
"""Program → the package it runs, and the dialect that package hears."""


def pins() -> dict[str, str]:
    """Package → the exact version in the lists of deploy/requirements."""
    found: dict[str, str] = {}
    for path in sorted(PINS.glob("clients-*.txt")):
        for line in path.read_text().splitlines():
            if match := PIN.fullmatch(line.strip()):
                name = match["name"]
                found[f"{name} (Node)" if path.stem == "clients-node" and name == "openai" else name] = match["version"]
    return found


def words(program: Path) -> str:
    """The first line of what a program says of itself."""
    text = program.read_text()
    if program.suffix == ".py":
        return (ast.get_docstring(ast.parse(text)) or "").splitlines()[0].replace("``", "`")
    return text.splitlines()[0].removeprefix("//").strip()


def steps(program: str) -> str:
    """What a program does, from the list it reports against."""
    tree = ast.parse((PROGRAMS / "report.py").read_text())
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "STEPS":
            all_steps = list(ast.literal_eval(node.value))
            chosen = all_steps[:3] if program == "run_openai_beta.py" else all_steps
            return ", ".join(chosen) + BEYOND.get(program, "")
    raise LookupError("tests/clients/report.py has no STEPS")


def clients_table() -> str:
    """One row a program. Raises: KeyError for a program that nobody named here, or a package without a pin."""
    versions = pins()
    rows = []
    for program in sorted(path.name for path in PROGRAMS.glob("run_*")):
        package, dialect = PACKAGES[program]
        said = words(PROGRAMS / program)
        rows.append([f"`{package}` {versions[package]}", dialect, said, steps(program), f"`tests/clients/{program}`"])
    return table(["client", "dialect", "what is run", "steps", "program"], rows)


TABLES = {"clients": clients_table}
