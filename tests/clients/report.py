"""What a run of a client came to: one JSON object on standard output, and an exit code.

Standard library only: this is imported by programs that run in the clients' own environments.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.metadata
import json
import sys
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field

STEPS = ("first audio turn", "second audio turn", "interruption", "tool call", "truncation")
LIMIT_S = 180.0
STEP_S = 45.0
"""How long one step may take; everything in it is paced like speech."""


@dataclass
class Step:
    """One thing that was tried."""

    name: str
    ok: bool
    detail: str = ""


@dataclass
class Report:
    """Everything there is to say of one run. ``validation_errors``: what the client itself would not accept."""

    client: str
    version: str
    steps: list[Step] = field(default_factory=list)
    validation_errors: list[str] = field(default_factory=list)
    expected: tuple[str, ...] = STEPS

    @property
    def ok(self) -> bool:
        """Whether every step was reached and passed, and nothing was refused on the way."""
        passed = [step.name for step in self.steps if step.ok]
        return not self.validation_errors and passed == list(self.expected)

    async def step(self, name: str, work: Awaitable[str]) -> None:
        """Await ``work``, which returns what it found; note how it went."""
        try:
            async with asyncio.timeout(STEP_S):
                detail = await work
        except Exception as error:
            self.steps.append(Step(name, False, f"{type(error).__name__}: {error}"))
            raise
        self.steps.append(Step(name, True, detail))


def expect(holds: bool, what: str) -> None:
    """Raises: AssertionError with ``what`` unless it holds; for programs that run without pytest."""
    if not holds:
        raise AssertionError(what)


def run(client: str, package: str, conversation: Callable[[str, Report], Awaitable[None]]) -> None:
    """Hold the conversation with the URL of the command line, print the report, and exit: 0 when all was well."""
    parser = argparse.ArgumentParser(description=f"{client} against a service")
    parser.add_argument("url", help="ws://HOST:PORT/v1/realtime")
    parser.add_argument("--version", help="what to report, where the package is not installed as one")
    asked = parser.parse_args()
    report = Report(client, asked.version or importlib.metadata.version(package))
    try:
        asyncio.run(asyncio.wait_for(conversation(asked.url, report), LIMIT_S))
    except Exception as error:
        if not report.steps or report.steps[-1].ok:
            report.steps.append(Step("(between steps)", False, f"{type(error).__name__}: {error}"))
        traceback.print_exc()
    print(json.dumps({**asdict(report), "ok": report.ok}))
    sys.exit(0 if report.ok else 1)
