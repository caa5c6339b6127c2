"""Child processes: heard, waited for, and always ended."""

from __future__ import annotations

import asyncio
import os
import sys

import pytest

from duplex_es.tools.children import Child
from duplex_es.tools.errors import ToolError

pytestmark = pytest.mark.unit


class Hearing:
    """Collects what a child says and lets a test wait for a line."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []
        self._news = asyncio.Event()

    def __call__(self, name: str, line: str) -> None:
        self.lines.append((name, line))
        self._news.set()

    async def until(self, line: str) -> None:
        while not any(heard == line for _, heard in self.lines):
            self._news.clear()
            await self._news.wait()


def python(code: str, hearing: Hearing, name: str = "child") -> Child:
    return Child(name, [sys.executable, "-u", "-c", code], hearing)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_its_lines_of_both_streams_carry_its_name() -> None:
    hearing = Hearing()
    child = python("import sys; print('out'); print('err', file=sys.stderr)", hearing)
    await child.start()
    assert await child.wait() == 0
    assert sorted(hearing.lines) == [("child", "err"), ("child", "out")]
    assert child.exit_code == 0
    assert not child.is_running


async def test_a_line_without_end_does_not_stop_the_listening() -> None:
    hearing = Hearing()
    child = python("print('x' * 3_000_000); print('after')", hearing)
    await child.start()
    await child.wait()
    assert hearing.lines[-1] == ("child", "after")


async def test_stopping_asks_first_and_waits_for_the_goodbye() -> None:
    hearing = Hearing()
    code = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: (print('goodbye'), sys.exit(0)))\n"
        "print('up')\n"
        "while True: time.sleep(1)"
    )
    child = python(code, hearing)
    await child.start()
    await hearing.until("up")
    await child.stop()
    assert child.exit_code == 0
    assert hearing.lines[-1] == ("child", "goodbye")


async def test_one_that_does_not_listen_is_killed_after_the_grace() -> None:
    hearing = Hearing()
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up')\nwhile True: time.sleep(1)"
    child = python(code, hearing)
    await child.start()
    await hearing.until("up")
    await child.stop(grace_s=0.1)
    assert child.exit_code == -9
    assert child.pid is not None
    assert not is_alive(child.pid)
    await child.stop()


async def test_stopping_what_never_started_or_has_ended_is_nothing() -> None:
    child = python("", Hearing())
    await child.stop()
    await child.start()
    await child.wait()
    await child.stop()


async def test_a_cancelled_wait_leaves_the_listening_alone() -> None:
    hearing = Hearing()
    child = python("input_ = __import__('time').sleep(0.2); print('late')", hearing)
    await child.start()
    waiting = asyncio.create_task(child.wait())
    await asyncio.sleep(0)
    waiting.cancel()
    await child.wait()
    assert hearing.lines == [("child", "late")]


async def test_a_program_that_is_not_there_is_said_in_words() -> None:
    with pytest.raises(ToolError, match="cannot start ghost"):
        await Child("ghost", ["/nowhere/ghost"], Hearing()).start()


async def test_its_last_words_are_the_end_of_its_output() -> None:
    child = python("for n in range(40): print(n)", Hearing())
    await child.start()
    await child.wait()
    assert child.last_words.split() == [str(n) for n in range(25, 40)]
