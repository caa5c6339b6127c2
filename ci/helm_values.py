"""Reads ``helm/duplex-es/values.yaml`` with its comments: every value by its path, its default and what it is for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

MARK = "# -- "


@dataclass(frozen=True, slots=True)
class Value:
    """One value: ``path`` from the top, ``default`` as YAML has it, ``text`` the comment above.

    ``is_section`` for a map whose keys are values of their own; a map in flow style (``{…}``) is one value.
    """

    path: tuple[str, ...]
    default: Any
    text: str
    is_section: bool

    @property
    def name(self) -> str:
        """The path with dots, as ``--set`` takes it."""
        return ".".join(self.path)


def read_values(path: Path) -> list[Value]:
    """Every section and value of the file, in its order. Raises: ValueError for a value that nothing describes."""
    text = path.read_text()
    top = yaml.compose(text, Loader=yaml.SafeLoader)
    if not isinstance(top, yaml.MappingNode):
        raise ValueError(f"{path} holds no map")
    return list(_under(top, (), text.splitlines()))


def _under(node: yaml.MappingNode, path: tuple[str, ...], lines: list[str]) -> Iterator[Value]:
    for key, held in node.value:
        here = (*path, str(key.value))
        text = _comment(lines, key.start_mark.line)
        is_section = isinstance(held, yaml.MappingNode) and not held.flow_style and not text
        if not is_section and not text:
            raise ValueError(f"{'.'.join(here)} (line {key.start_mark.line + 1}) has no `{MARK}…` above it")
        yield Value(here, yaml.safe_load(yaml.serialize(held)), text, is_section)
        if is_section:
            yield from _under(held, here, lines)


def _comment(lines: list[str], line: int) -> str:
    """What stands above ``line`` behind the mark, in one line."""
    found: list[str] = []
    for above in reversed(lines[:line]):
        bare = above.strip()
        if not bare.startswith("#"):
            break
        found.insert(0, bare)
        if bare.startswith(MARK):
            return " ".join(each.removeprefix(MARK).removeprefix("# ") for each in found)
    return ""
