"""Writes deploy/docker/constraints.txt: the exact versions that the images install, as they are in this environment.

Run it after `make install`; `--check` only says whether the file still fits what pyproject.toml asks for.
"""

from __future__ import annotations

import sys
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "deploy/docker/constraints.txt"
OURS = "duplex-es"
EXTRAS = ("gateway", "cascade", "chat", "bridge", "archive", "tracing")
HEAD = "# The versions in the images, written by ci/image_constraints.py. The wheels with weights also have hashes.\n"


def asked() -> list[Requirement]:
    """What the images' extras ask for by name, ours left out; an extra that is not there asks for nothing."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    optional = project["optional-dependencies"]
    waiting = [*project["dependencies"], *(line for extra in EXTRAS for line in optional.get(extra, []))]
    seen: set[str] = set()
    found: dict[str, Requirement] = {}
    while waiting:
        requirement = Requirement(waiting.pop())
        if canonicalize_name(requirement.name) == OURS:
            new = requirement.extras - seen
            seen |= new
            waiting += [line for extra in new for line in optional.get(extra, [])]
        else:
            found[str(requirement)] = requirement
    return list(found.values())


def closure() -> dict[str, str]:
    """The version of everything that these need here, by name. Raises: PackageNotFoundError for what is missing."""
    versions: dict[str, str] = {}
    waiting = asked()
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        if requirement.marker and not any(requirement.marker.evaluate({"extra": e}) for e in ("", *requirement.extras)):
            continue
        if name in versions:
            continue
        found = distribution(name)
        versions[name] = found.version
        for line in found.requires or []:
            below = Requirement(line)
            if below.marker is None or any(below.marker.evaluate({"extra": e}) for e in ("", *requirement.extras)):
                waiting.append(below)
    return versions


def pinned() -> dict[str, str]:
    """What the file says."""
    lines = (line.partition("#")[0].strip() for line in FILE.read_text().splitlines())
    return dict(line.split("==") for line in lines if line)


def misfits() -> list[str]:
    """Requirements of pyproject.toml that the file does not name or does not satisfy, in words."""
    versions, wrong = pinned(), []
    for requirement in asked():
        version = versions.get(canonicalize_name(requirement.name))
        if version is None:
            wrong.append(f"{requirement.name} has no line")
        elif not requirement.specifier.contains(version, prereleases=True):
            wrong.append(f"{requirement.name} is {version}, asked for is {requirement.specifier}")
    return wrong


def main(words: list[str]) -> int:
    """Write, or check; the exit code."""
    if words == ["--check"]:
        for line in misfits():
            print(f"{FILE.relative_to(ROOT)}: {line}; run ci/image_constraints.py", file=sys.stderr)
        return 1 if misfits() else 0
    try:
        versions = closure()
    except PackageNotFoundError as missing:
        print(f"{missing} is not installed here; run `make install` first", file=sys.stderr)
        return 1
    FILE.write_text(HEAD + "".join(f"{name}=={version}\n" for name, version in sorted(versions.items())))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
