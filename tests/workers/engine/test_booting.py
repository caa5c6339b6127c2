"""Our modules in whatever interpreter."""

from __future__ import annotations

import asyncio
import os
import sys

import pytest

from workers.engine.booting import start_module

pytestmark = pytest.mark.unit


async def test_a_module_is_run_with_its_arguments_descriptors_and_environment() -> None:
    reading, writing = os.pipe()
    code = f"import os; os.write({writing}, os.environ['WHO'].encode())"
    process = await start_module(
        sys.executable, "timeit", ["-n1", "-r1", code], descriptors=[writing], environment={"WHO": "me"}
    )
    os.close(writing)
    async with asyncio.timeout(60):
        assert await process.wait() == 0
    assert os.read(reading, 10) == b"me"
    os.close(reading)


async def test_an_interpreter_that_is_not_there_raises() -> None:
    with pytest.raises(OSError, match="/nowhere/python"):
        await start_module("/nowhere/python", "timeit", [], descriptors=[], environment={})
