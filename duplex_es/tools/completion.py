"""``duplex-es completion``: a script that lets a shell complete commands, flags, session files and choices."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from .console import Console
from .errors import ToolError

SHELLS = ("bash", "zsh", "fish")
WHERE = {
    "bash": "duplex-es completion bash > ~/.local/share/bash-completion/completions/duplex-es",
    "zsh": "duplex-es completion zsh > ~/.zfunc/_duplex-es, with fpath+=~/.zfunc before compinit",
    "fish": "duplex-es completion fish > ~/.config/fish/completions/duplex-es.fish",
}
"""Where each shell looks for it."""


def runner(build_parser: Callable[[], argparse.ArgumentParser]) -> Callable[[argparse.Namespace], object]:
    """The ``run`` of this command, for the tree that ``build_parser`` makes."""

    async def run(args: argparse.Namespace) -> int:
        """Print the script. Raises: ToolError."""
        Console().line(script(build_parser(), args.shell))
        return 0

    return run


def script(parser: argparse.ArgumentParser, shell: str) -> str:
    """The script for one shell. Raises: ToolError when what makes it is not installed."""
    try:
        import shtab
    except ImportError as error:
        raise ToolError("completion needs shtab: install duplex-es[tools]") from error
    for leaf in _parsers(parser):
        for action in leaf._actions:
            if action.type is Path or action.metavar in ("FILE", "FILE.dxlog", "X.dxlog"):
                action.complete = shtab.FILE  # type: ignore[attr-defined]
    return str(shtab.complete(parser, shell))


def _parsers(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    """``parser`` and all below it."""
    found = [parser]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found += [one for child in action.choices.values() for one in _parsers(child)]
    return found
