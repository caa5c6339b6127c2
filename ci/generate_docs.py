"""Writes the tables of docs/reference from the code they describe, between markers; ``--check`` only compares.

A page says where a table goes::

    <!-- generated: errors -->
    <!-- end -->

Whatever stands between is replaced. Text outside the markers is written by hand. What is known about one event of the
API goes into a block of its own::

    <!-- generated: event session.close -->
    <!-- end -->
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

# Its own folder: a test loads this file from elsewhere.
sys.path.insert(0, str(Path(__file__).parent))

import client_table
import msgspec
import wire_catalogue
from wire_catalogue import table

from duplex_es.observability.prometheus import documented
from duplex_es.protocol.commands import ALIASES, COMMANDS
from duplex_es.protocol.errors import ERRORS, EXTENSION_CODES
from duplex_es.protocol.frames import FRAMES
from duplex_es.tools.bench.report import BenchReport
from duplex_es.tools.cli import build_parser
from gateway.settings import settings_table as gateway_settings
from workers.settings import settings_table as worker_settings

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
BLOCK = re.compile(
    r"(<!-- generated: (?P<name>[a-z-]+)(?: (?P<event>[a-z._]+))? -->\n).*?(?P<end><!-- end -->)", re.DOTALL
)


def promise(described: type) -> str:
    """The first sentence of a class's docstring."""
    text = " ".join((inspect.getdoc(described) or "").split())
    found = re.match(r"(.+?[.])(\s|$)", text)
    return found[1] if found else text


def commands_table() -> str:
    """What a client can say."""
    aliases = {name: [f"`{alias}`" for alias, target in ALIASES.items() if target == name] for name in COMMANDS}
    rows = [
        [f"`{name}`", ", ".join(aliases[name]), f"`{command.__name__}`", promise(command)]
        for name, command in COMMANDS.items()
    ]
    return table(["type", "aliases", "struct", "meaning"], rows)


def frames_table() -> str:
    """What a client can hear."""
    rows = [
        [f"`{name}`", str(getattr(frame, "TIER", "")), f"`{frame.__name__}`", promise(frame)]
        for name, frame in FRAMES.items()
    ]
    return table(["type", "tier", "struct", "meaning"], rows)


def errors_table() -> str:
    """Every error code."""

    def yes(value: bool) -> str:
        return "yes" if value else ""

    rows = [
        [
            f"`{code}`",
            f"`{row.type}`",
            row.fault,
            yes(row.retryable),
            "always" if row.closes else "before the session is open" if row.closes_in_handshake else "",
            "ours" if code in EXTENSION_CODES else "",
        ]
        for code, row in sorted(ERRORS.items())
    ]
    return table(["code", "type", "fault", "retry may help", "ends the connection", "extension"], rows)


def cli_tables() -> str:
    """Every subcommand with its flags."""
    parts = []
    for leaf in leaves(build_parser()):
        rows = [
            [f"`{spelling(action)}`", shown_default(action), action.help or ""]
            for action in leaf._actions
            if not isinstance(action, argparse._HelpAction)
        ]
        parts.append(f"### `{leaf.prog}`\n\n{leaf.description}\n\n{table(['argument', 'default', 'meaning'], rows)}")
    return "\n".join(parts)


def leaves(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """The subcommands that run something, in the order they were added."""
    groups = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not groups:
        yield parser
    for group in groups:
        for child in group.choices.values():
            yield from leaves(child)


def spelling(action: argparse.Action) -> str:
    """How an argument is written on the command line."""
    name = action.option_strings[-1] if action.option_strings else str(action.metavar or action.dest)
    if not action.option_strings or action.nargs == 0:
        return name
    return f"{name} {action.metavar or action.dest.upper()}"


def shown_default(action: argparse.Action) -> str:
    """An argument's default; nothing for flags and required ones. Paths of this checkout are shown from its root."""
    value = action.default
    if value in (None, False, [], argparse.SUPPRESS):
        return ""
    if isinstance(value, Path) and value.is_relative_to(ROOT):
        value = value.relative_to(ROOT)
    return f"`{' '.join(map(str, value)) if isinstance(value, list) else value}`"


TABLES: dict[str, Callable[[], str]] = {
    "commands": commands_table,
    "frames": frames_table,
    "errors": errors_table,
    "cli": cli_tables,
    "gateway-settings": gateway_settings,
    "worker-settings": worker_settings,
    "metrics": documented,
    **client_table.TABLES,
    **wire_catalogue.TABLES,
}


def bench_schema() -> str:
    """The JSON schema of what ``duplex-es bench`` reports."""
    return msgspec.json.format(msgspec.json.encode(msgspec.json.schema(BenchReport)), indent=2).decode() + "\n"


FILES: dict[Path, Callable[[], str]] = {DOCS / "reference/bench-report.schema.json": bench_schema}
"""Files that are generated as a whole."""


def regenerated(text: str) -> str:
    """A page with every generated block made anew. Raises: KeyError for a name that no table has."""

    def block(match: re.Match[str]) -> str:
        event = match["event"]
        text = wire_catalogue.event_block(event) if event else TABLES[match["name"]]()
        return f"{match[1]}{text.strip()}\n{match['end']}"

    return BLOCK.sub(block, text)


def stale_pages(*, writes: bool) -> list[Path]:
    """The pages and files that differ from the code; with ``writes`` they are mended."""
    stale = []
    pages = {page: regenerated(page.read_text()) for page in sorted(DOCS.rglob("*.md"))}
    pages |= {page: make() for page, make in FILES.items()}
    for page, fresh in pages.items():
        if not page.exists() or page.read_text() != fresh:
            stale.append(page)
            if writes:
                page.write_text(fresh)
    return stale


def main() -> int:
    """The exit code: with ``--check`` 1 when a table is stale."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing; fail when a table is stale")
    args = parser.parse_args()
    stale = stale_pages(writes=not args.check)
    for page in stale:
        print(f"{'stale' if args.check else 'written'}: {page.relative_to(ROOT)}")
    if args.check and stale:
        print("run `make docs`", file=sys.stderr)
    return 1 if args.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
