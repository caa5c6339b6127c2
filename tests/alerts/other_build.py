"""A worker process of another version whose model takes long to rebuild: ``python other_build.py VERSION REBUILD_S …``.

What follows goes to the worker; its model plays scripts, and takes ``REBUILD_S`` to open where another worker's session
is taken up.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import duplex_es


def main(version: str, rebuild_s: float, arguments: Sequence[str]) -> int:
    """Run the worker; its exit status."""
    duplex_es.__version__ = version  # Before the parts are imported that tell it.
    from duplex_es.model import Emit, OpenModel
    from workers import cli
    from workers.models.scripted.model import ScriptedModel
    from workers.models.scripted.session import ScriptedSession

    class Rebuilding(ScriptedModel):
        async def open(self, request: OpenModel, emit: Emit) -> ScriptedSession:
            if request.resumed:
                await asyncio.sleep(rebuild_s)
            return await super().open(request, emit)

    cli.make_model = lambda name, options: Rebuilding(options)
    return cli.main(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], float(sys.argv[2]), sys.argv[3:]))
