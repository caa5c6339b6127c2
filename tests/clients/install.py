"""Installs the stock clients, each from its own registry, into one folder; the project's environment stays clean.

usage: install.py FOLDER

Makes FOLDER/python (a virtual environment), FOLDER/node_modules and FOLDER/upstream. What is pinned in
deploy/requirements/clients-*.txt is what is run; a folder that holds just that is left as it is. Standard library only.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

PINS = Path(__file__).parents[2] / "deploy" / "requirements"
UPSTREAM_FOLDER = "vllm_omni/clients/"


def pinned(name: str) -> list[str]:
    """The packages of one list, without its comments."""
    lines = (PINS / f"clients-{name}.txt").read_text().splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def install_python(home: Path) -> None:
    """The Python clients, in an environment of their own."""
    venv.create(home / "python", with_pip=True, clear=True)
    pip = [str(home / "python" / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, "install", "-r", str(PINS / "clients-python.txt")], check=True)


def install_node(home: Path) -> None:
    """The JavaScript clients. Raises: FileNotFoundError where there is no npm."""
    npm = shutil.which("npm")
    if npm is None:
        raise FileNotFoundError("npm: install Node 20 or newer")
    subprocess.run(
        [npm, "install", "--prefix", str(home), "--no-fund", "--no-audit", "--loglevel=error", *pinned("node")],
        check=True,
    )


def install_upstream(home: Path) -> None:
    """Upstream's client: one folder out of a wheel whose dependencies nobody here wants."""
    shutil.rmtree(home / "upstream", ignore_errors=True)
    with tempfile.TemporaryDirectory() as wheels:
        pip = [str(home / "python" / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "--quiet"]
        subprocess.run([*pip, "download", "--no-deps", "-d", wheels, *pinned("upstream")], check=True)
        (wheel,) = Path(wheels).glob("*.whl")
        with zipfile.ZipFile(wheel) as packed:
            for name in packed.namelist():
                if name.startswith(UPSTREAM_FOLDER):
                    packed.extract(name, home / "upstream")


def main() -> None:
    """Install what is not there yet."""
    home = Path(sys.argv[1]).resolve()
    pins = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(PINS.glob("clients-*.txt")))).hexdigest()
    stamp = home / "installed"
    if stamp.exists() and stamp.read_text() == pins:
        return
    home.mkdir(parents=True, exist_ok=True)
    for install in (install_python, install_node, install_upstream):
        install(home)
    stamp.write_text(pins)


if __name__ == "__main__":
    main()
