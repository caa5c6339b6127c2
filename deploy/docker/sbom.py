"""Writes what is in an image as CycloneDX 1.5: ``sbom.py NAME VERSION PREFIX... > sbom.cdx.json``.

Each PREFIX is a virtual environment whose Python packages are listed, beside Debian's packages if there is a dpkg here.
The same contents give the same bytes: no times, no serial number, everything sorted. Standard library only.
"""

import json
import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import Distribution, distributions
from pathlib import Path

Component = dict[str, object]
DPKG = ("dpkg-query", "--show", "--showformat", "${Package}\t${Version}\t${Architecture}\n")


def python_packages(prefix: Path) -> list[Component]:
    """The distributions of one environment. Raises: FileNotFoundError when it is none."""
    folders = sorted(prefix.glob("lib/python3*/site-packages"))
    if not folders:
        raise FileNotFoundError(f"{prefix} is no Python environment")
    found = {}
    for distribution in distributions(path=[str(folder) for folder in folders]):
        name, version = distribution.metadata["Name"], distribution.version
        component: Component = {
            "type": "library",
            "name": name,
            "version": version,
            "purl": f"pkg:pypi/{name.lower().replace('_', '-')}@{version}",
        }
        licences = licences_of(distribution)
        if licences:
            component["licenses"] = licences
        found[str(component["purl"])] = component
    return list(found.values())


def licences_of(distribution: Distribution) -> list[dict[str, object]]:
    """What a package says about its licence, as CycloneDX wants it: an SPDX expression, or a name."""
    expression = distribution.metadata.get("License-Expression")
    if expression:
        return [{"expression": expression}]
    said = (distribution.metadata.get("License") or "").strip()
    if said and "\n" not in said and len(said) < 80:  # some put the whole text there
        return [{"license": {"name": said}}]
    classifiers = distribution.metadata.get_all("Classifier") or []
    names = sorted(line.rsplit(" :: ", 1)[1] for line in classifiers if line.startswith("License :: "))
    return [{"license": {"name": name}} for name in names]


def debian_packages() -> list[Component]:
    """Debian's packages, none where there is no dpkg."""
    try:
        listed = subprocess.run(DPKG, capture_output=True, text=True, check=True).stdout
    except FileNotFoundError:
        return []
    rows = (line.split("\t") for line in listed.splitlines())
    return [
        {"type": "library", "name": name, "version": version, "purl": f"pkg:deb/debian/{name}@{version}?arch={arch}"}
        for name, version, arch in rows
    ]


def document(name: str, version: str, components: Iterable[Component]) -> dict[str, object]:
    """The whole bill, components by their purl."""
    unique = {str(one["purl"]): {**one, "bom-ref": one["purl"]} for one in components}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "container", "name": name, "version": version, "bom-ref": name}},
        "components": [unique[purl] for purl in sorted(unique)],
    }


def main(words: list[str]) -> int:
    """Print the bill. Exit code 2 for a wrong command line."""
    if len(words) < 3:
        print("usage: sbom.py NAME VERSION PREFIX...", file=sys.stderr)
        return 2
    name, version, *prefixes = words
    components = [one for prefix in prefixes for one in python_packages(Path(prefix))]
    json.dump(document(name, version, [*components, *debian_packages()]), sys.stdout, indent=1, sort_keys=True)
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
