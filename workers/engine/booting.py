"""Starts one of our modules in an interpreter that may have none of our packages."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Our own packages come last on the path: the engine's interpreter has its own numpy, and needs nothing else of ours.
BOOT = "import runpy, sys; sys.path.append(sys.argv.pop(1)); runpy.run_module({module!r}, run_name='__main__')"


async def start_module(
    python: str, module: str, arguments: Sequence[str], *, descriptors: Sequence[int], environment: Mapping[str, str]
) -> asyncio.subprocess.Process:
    """The process of ``module`` with ``arguments``, which keeps ``descriptors`` open under their numbers.

    ``environment`` is added to ours. Raises: OSError if ``python`` cannot be started.
    """
    return await asyncio.create_subprocess_exec(
        *(python, "-c", BOOT.format(module=module), str(ROOT), *arguments),
        pass_fds=tuple(descriptors),
        stdin=asyncio.subprocess.DEVNULL,
        env={**os.environ, **environment},
    )
