"""Processes that a command starts, listens to, and always ends."""

from __future__ import annotations

import asyncio
import signal
from asyncio.subprocess import DEVNULL, PIPE, STDOUT
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress

from .errors import ToolError

# A worker takes up to 20 s to let turns end before it goes.
STOP_GRACE_S = 25.0
LAST_LINES = 15
LINE_LIMIT_BYTES = 1024 * 1024

Say = Callable[[str, str], None]
"""Takes a process's name and one line of its output."""


class Child:
    """One process, in a session of its own, so that a Ctrl-C in the terminal reaches it only through us."""

    def __init__(self, name: str, command: Sequence[str], say: Say) -> None:
        self.name = name
        self.command = list(command)
        self._say = say
        self._process: asyncio.subprocess.Process | None = None
        self._pump: asyncio.Task[None] | None = None
        self._last_lines: deque[str] = deque(maxlen=LAST_LINES)

    @property
    def pid(self) -> int | None:
        """The process id; ``None`` before the start."""
        return self._process.pid if self._process else None

    @property
    def exit_code(self) -> int | None:
        """How it ended; negative for a signal, ``None`` while it runs or before the start."""
        return self._process.returncode if self._process else None

    @property
    def is_running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._process is not None and self._process.returncode is None

    @property
    def last_words(self) -> str:
        """The end of its output, for an error message."""
        return "\n".join(f"    {line}" for line in self._last_lines)

    async def start(self) -> None:
        """Start it. Raises: ToolError when there is no such program."""
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self.command,
                stdin=DEVNULL,
                stdout=PIPE,
                stderr=STDOUT,
                start_new_session=True,
                limit=LINE_LIMIT_BYTES,
            )
        except OSError as error:
            raise ToolError(f"cannot start {self.name}: {error}") from error
        assert self._process.stdout is not None
        self._pump = asyncio.create_task(self._listen(self._process.stdout))

    async def wait(self) -> int:
        """Its exit code, once it has ended and all its output was passed on."""
        assert self._process is not None and self._pump is not None, "start it first"
        code = await self._process.wait()
        # Not ``await self._pump``: cancelling this wait must not cancel the listening.
        await asyncio.wait([self._pump])
        return code

    async def stop(self, grace_s: float = STOP_GRACE_S) -> None:
        """Ask it to end, and end it after ``grace_s`` if it has not. Returns when it is gone. Idempotent."""
        if self._process is None:
            return
        self._signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(grace_s):
                await self.wait()
        except TimeoutError:
            self._say(self.name, f"still running {grace_s:g} s after it was asked to end: killed")
            self._signal(signal.SIGKILL)
            await self.wait()

    async def kill(self) -> None:
        """End it at once, as a lost machine would. Returns when it is gone."""
        self._signal(signal.SIGKILL)
        await self.wait()

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)

    async def _listen(self, output: asyncio.StreamReader) -> None:
        while True:
            try:
                raw = await output.readline()
            except ValueError:
                # A line beyond the limit; the reader has thrown it away.
                raw = b"(a line too long to show)\n"
            if not raw:
                return
            line = raw.decode(errors="replace").rstrip()
            self._last_lines.append(line)
            self._say(self.name, line)
