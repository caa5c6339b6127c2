"""Asks strict stock clients whether they would accept a server's events.

usage: validate_events.py [--client NAME]... EVENTS.jsonl        ("-" reads standard input)

Runs in the clients' own environment (deploy/requirements/clients-python.txt), never in the project's. Each line of the
input is one event as it went to the socket. Prints one JSON report: what was asked with which version, and every
rejection. Exit code: 0 none, 1 some, 2 a client is missing or the input is not JSON lines.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

Check = Callable[[dict[str, Any], str], str | None]
"""An event and its text → why the client rejects it, or None."""


def openai_agents() -> Check:
    """The adapter openai-agents passes every event through; what fails there reaches the app as an error."""
    import pydantic
    from agents.realtime.openai_realtime import get_server_event_type_adapter

    adapter = get_server_event_type_adapter()

    def check(event: dict[str, Any], text: str) -> str | None:
        try:
            adapter.validate_python(event)
        except pydantic.ValidationError as error:
            return "; ".join(sorted({f"{'.'.join(map(str, row['loc']))}: {row['type']}" for row in error.errors()})[:6])
        return None

    return check


def pipecat() -> Check:
    """pipecat's parser; an exception there ends its receive loop for good."""
    from pipecat.services.openai.realtime.events import parse_server_event

    def check(event: dict[str, Any], text: str) -> str | None:
        try:
            parse_server_event(text)
        except Exception as error:  # whatever it is, the client's loop dies of it
            return str(error).split("\n\n{")[0].replace("\n", " ")[:400]
        return None

    return check


def pydantic_ai() -> Check:
    """The mapping pydantic-ai reads every event with."""
    from pydantic_ai.realtime._openai_protocol import map_event

    def check(event: dict[str, Any], text: str) -> str | None:
        try:
            map_event(event)
        except Exception as error:
            return f"{type(error).__name__}: {error}".replace("\n", " ")[:400]
        return None

    return check


CLIENTS: dict[str, tuple[str, Callable[[], Check]]] = {
    "openai-agents": ("openai-agents", openai_agents),
    "pipecat": ("pipecat-ai", pipecat),
    "pydantic-ai": ("pydantic-ai-slim", pydantic_ai),
}


def main() -> int:
    """Check every line, print the report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("events")
    parser.add_argument("--client", action="append", choices=sorted(CLIENTS))
    asked = parser.parse_args()
    text = sys.stdin.read() if asked.events == "-" else Path(asked.events).read_text()
    lines = [line for line in text.splitlines() if line.strip()]
    try:
        events = [json.loads(line) for line in lines]
        names = asked.client or list(CLIENTS)
        checks = {name: CLIENTS[name][1]() for name in names}
    except (ValueError, ImportError) as error:
        print(f"cannot ask: {error}", file=sys.stderr)
        return 2
    rejections = [
        {"client": name, "line": number, "type": event.get("type"), "why": why}
        for number, (event, line) in enumerate(zip(events, lines, strict=True), 1)
        for name, check in checks.items()
        if (why := check(event, line)) is not None
    ]
    versions = {name: importlib.metadata.version(CLIENTS[name][0]) for name in checks}
    print(json.dumps({"clients": versions, "events": len(events), "rejections": rejections}))
    return 1 if rejections else 0


if __name__ == "__main__":
    sys.exit(main())
