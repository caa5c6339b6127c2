"""What commands print: named lines of several processes, headings and tables. Colour only where a person looks."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Sequence
from typing import TextIO

NAME_WIDTH = 9
COLOURS = (36, 33, 32, 35, 34, 31)


class Console:
    """Writes whole lines to ``stream``; with ``is_colourful``, one colour per named source."""

    def __init__(self, stream: TextIO | None = None, *, is_colourful: bool | None = None) -> None:
        self._stream = stream or sys.stdout
        if is_colourful is None:
            is_colourful = self._stream.isatty() and "NO_COLOR" not in os.environ
        self._is_colourful = is_colourful
        self._names: list[str] = []

    def line(self, text: str = "") -> None:
        """One line as it is."""
        print(text, file=self._stream, flush=True)

    def heading(self, text: str) -> None:
        """An empty line and a title."""
        self.line()
        self.line(self._painted(text, 1))

    def named(self, name: str, text: str) -> None:
        """One line of one process, its name in front."""
        if name not in self._names:
            self._names.append(name)
        colour = COLOURS[self._names.index(name) % len(COLOURS)]
        self.line(f"{self._painted(f'{name:<{NAME_WIDTH}}', colour)} | {text}")

    def table(self, rows: Sequence[Sequence[str]], *, width: int = 100) -> None:
        """Rows of cells, every column but the last as wide as its widest cell, the last one wrapped at ``width``."""
        for text in table_lines(rows, width=width):
            self.line(text)

    def columns(self, rows: Sequence[Sequence[str]]) -> None:
        """Rows of numbers under a first row of names: the first column to the left, the others to the right."""
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))] if rows else []
        for row in rows:
            numbers = (f"{cell:>{width}}" for cell, width in zip(row[1:], widths[1:], strict=True))
            self.line("  ".join([f"  {row[0]:<{widths[0]}}", *numbers]))

    def _painted(self, text: str, code: int) -> str:
        return f"\033[{code}m{text}\033[0m" if self._is_colourful else text


def table_lines(rows: Sequence[Sequence[str]], *, width: int) -> list[str]:
    """The lines of a table. Every row has as many cells as the first."""
    if not rows:
        return []
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    indent = sum(widths) + 2 * len(widths) + 2
    lines = []
    for row in rows:
        left = "  ".join(f"{cell:<{size}}" for cell, size in zip(row, widths, strict=False))
        wrapped = textwrap.wrap(row[-1], max(20, width - indent)) or [""]
        lines.append(f"  {left}{'  ' if left else ''}{wrapped[0]}".rstrip())
        lines.extend(" " * indent + more for more in wrapped[1:])
    return lines
