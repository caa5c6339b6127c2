"""``duplex-es doctor``: whether a store can keep the promises, and what to change where it cannot."""

from __future__ import annotations

import argparse

import msgspec

from ..log.errors import ConfigurationError, LogUnavailable
from ..log.examination import examine
from ..log.findings import Finding
from .console import Console
from .errors import ToolError

MARKS = {"ok": "ok", "warning": "warn", "failure": "FAIL"}


async def run(args: argparse.Namespace) -> int:
    """The exit code of ``duplex-es doctor``: 1 when something fails; warnings do not.

    Raises: ToolError when the store cannot be examined at all.
    """
    try:
        findings = await examine(args.redis_url)
    except (ValueError, ConfigurationError) as error:
        raise ToolError(f"{args.redis_url}: {error}") from error
    except LogUnavailable as error:
        raise ToolError(f"the store at {args.redis_url} does not answer: {error}") from error
    failed = any(finding.level == "failure" for finding in findings)
    if args.json:
        Console().line(msgspec.json.encode({"fit": not failed, "findings": findings}).decode())
    else:
        show(findings, Console())
    return 1 if failed else 0


def show(findings: list[Finding], console: Console) -> None:
    """The findings as a table, and under each that is not well what to do."""
    rows: list[tuple[str, str, str]] = []
    for finding in findings:
        rows.append((MARKS[finding.level], finding.subject, finding.found))
        if finding.advice:
            rows.append(("", "", f"-> {finding.advice}"))
    console.table(rows, width=120)
    counts = {level: sum(finding.level == level for finding in findings) for level in MARKS}
    verdict = "not fit" if counts["failure"] else "fit"
    console.line(f"  {verdict}: {counts['failure']} failed, {counts['warning']} to look at, {counts['ok']} well")
