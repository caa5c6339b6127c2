"""Running a command until it ends or is told to stop."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from duplex_es.tools.errors import ToolError
from duplex_es.tools.lifetime import INTERRUPTED, run_interruptible

pytestmark = pytest.mark.unit


def test_a_command_that_ends_gives_its_own_code() -> None:
    async def command() -> int:
        return 7

    assert run_interruptible(command()) == 7


def test_a_commands_trouble_is_passed_on() -> None:
    async def command() -> int:
        raise ToolError("no")

    with pytest.raises(ToolError):
        run_interruptible(command())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_lets_the_command_clean_up_and_a_second_one_does_not_cut_that_short(number: signal.Signals) -> None:
    steps: list[str] = []

    async def command() -> int:
        try:
            os.kill(os.getpid(), number)
            await asyncio.Event().wait()
        finally:
            steps.append("cleaning up")
            os.kill(os.getpid(), number)
            for _ in range(3):
                await asyncio.sleep(0)
            steps.append("clean")
        return 0

    assert run_interruptible(command()) == INTERRUPTED
    assert steps == ["cleaning up", "clean"]
