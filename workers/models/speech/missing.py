"""Finds the packages and files the cascade needs, and says what to install when one is not there."""

from __future__ import annotations

import hashlib
import importlib.util
from pathlib import Path

EXTRA = "pip install 'duplex-es[cascade]'"


class CascadePartMissing(RuntimeError):
    """A part of the cascade is not installed, or is not the pinned one; the message says how to get it."""


def package_dir(module: str, package: str) -> Path:
    """Where an installed module lies, found without importing it. Raises: CascadePartMissing."""
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise CascadePartMissing(f"package {package} is missing; install it with: {EXTRA}")
    return Path(spec.origin).parent


def pinned_file(path: Path, sha256: str, package: str) -> Path:
    """``path`` itself, once its content is the expected one. Raises: CascadePartMissing when absent or different."""
    if not path.is_file():
        raise CascadePartMissing(f"{path} is missing; install {package} with: {EXTRA}")
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    if digest.hexdigest() != sha256:
        raise CascadePartMissing(f"{path} is not the pinned file of {package}; reinstall with: {EXTRA}")
    return path
