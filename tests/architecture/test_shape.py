"""A file that no one can hold in mind is a defect: limits on shape, not on style."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted(path for top in ("duplex_es", "gateway", "workers", "ci") for path in (ROOT / top).rglob("*.py"))
MODULE_LINES, FUNCTION_LINES, SCRIPT_LINES = 500, 60, 100
VAGUE_NAMES = {"utils", "util", "helper", "helpers", "common", "base", "manager", "handler", "misc"}

named_by_path = pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@named_by_path
def test_a_module_can_be_read_in_one_sitting(path: Path) -> None:
    text = path.read_text()
    assert text.count("\n") <= MODULE_LINES
    for node in ast.walk(ast.parse(text)):
        assert not isinstance(node, ast.Nonlocal), f"line {node.lineno}: state shared between closures"
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            size = (node.end_lineno or node.lineno) - node.lineno + 1
            assert size <= FUNCTION_LINES, f"{node.name} is {size} lines long"


@named_by_path
def test_a_module_and_its_public_names_say_what_they_promise(path: Path) -> None:
    tree = ast.parse(path.read_text())
    assert ast.get_docstring(tree), "the first thing a newcomer reads is missing"
    for node in tree.body:
        if isinstance(node, Definition) and not node.name.startswith("_"):
            assert ast.get_docstring(node), f"{node.name} (line {node.lineno}) has no docstring"


@named_by_path
def test_a_module_is_named_for_what_it_holds(path: Path) -> None:
    assert not VAGUE_NAMES & {*path.relative_to(ROOT).with_suffix("").parts}


@named_by_path
def test_an_error_is_never_swallowed_whole(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ExceptHandler):
            broad = node.type is None or (
                isinstance(node.type, ast.Name) and node.type.id in {"Exception", "BaseException"}
            )
            silent = all(isinstance(statement, ast.Pass) for statement in node.body)
            assert not (broad and silent), f"line {node.lineno}"


@pytest.mark.parametrize("path", sorted(ROOT.glob("duplex_es/log/lua/*.lua")), ids=lambda path: path.name)
def test_a_script_is_short_and_opens_with_its_promise(path: Path) -> None:
    lines = path.read_text().splitlines()
    assert lines
    assert len(lines) <= SCRIPT_LINES
    assert any(line.startswith("-- ") for line in lines[:2]), "say in one sentence what the script does"
