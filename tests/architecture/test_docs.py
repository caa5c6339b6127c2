"""The documentation holds: its code runs, its links lead somewhere, its tables are those of the code."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from duplex_es.tools.cli import build_parser

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
PYTHON = re.compile(r"(?:<!-- not run: (?P<reason>[^>]+) -->\n)?```python\n(?P<code>.*?)```", re.DOTALL)
SHELL = re.compile(r"^\$ (?P<command>.+)$", re.MULTILINE)
LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
HEADING = re.compile(r"^#+ (?P<title>.+)$", re.MULTILINE)
FENCED = re.compile(r"```.*?```", re.DOTALL)

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def anchor(title: str) -> str:
    """A heading's anchor as code hosts make it."""
    return re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-")


def python_blocks() -> Iterator[tuple[str, str, str | None]]:
    for page in PAGES:
        for number, match in enumerate(PYTHON.finditer(page.read_text()), 1):
            yield f"{page.relative_to(ROOT)}:{number}", match["code"], match["reason"]


@each_page
def test_every_link_leads_to_a_file_and_a_heading_that_exist(page: Path) -> None:
    for match in LINK.finditer(FENCED.sub("", page.read_text())):
        target, _, fragment = match["target"].partition("#")
        if target.startswith(("http://", "https://", "mailto:")):
            continue
        path = (page.parent / target).resolve() if target else page
        assert path.exists(), f"{match['target']} leads nowhere"
        if fragment:
            titles = {anchor(found["title"]) for found in HEADING.finditer(FENCED.sub("", path.read_text()))}
            assert fragment in titles, f"{match['target']}: no such heading"


@pytest.mark.parametrize(("where", "code", "reason"), [pytest.param(*block, id=block[0]) for block in python_blocks()])
def test_every_python_block_runs_or_says_why_it_is_only_read(where: str, code: str, reason: str | None) -> None:
    tree = ast.parse(code)
    if reason is None:
        ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
        assert ran.returncode == 0, ran.stderr
        return
    # What is only read must at least name things that exist.
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    exec(compile(ast.Module(body=list(imports), type_ignores=[]), where, "exec"), {})


def test_every_decision_is_listed_once() -> None:
    folder = ROOT / "docs" / "decisions"
    listed = LINK.findall((folder / "README.md").read_text())
    assert sorted(listed) == sorted(path.name for path in folder.glob("0*.md"))


@each_page
def test_every_command_in_a_shell_block_is_one_that_exists(page: Path) -> None:
    targets = set(re.findall(r"^([a-z][a-z0-9-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for match in SHELL.finditer(page.read_text()):
        words = match["command"].split(" #")[0].split()
        program = words[0].rsplit("/", 1)[-1]
        if program == "make":
            assert set(words[1:]) <= targets, match["command"]
        if program == "duplex-es":
            build_parser().parse_args(words[1:])


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = spec_from_file_location("generate_docs", ROOT / "ci" / "generate_docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_generated_table_is_that_of_the_code(generator: ModuleType) -> None:
    assert generator.stale_pages(writes=False) == [], "run `make docs`"


def test_every_table_the_generator_can_make_stands_on_a_page(generator: ModuleType) -> None:
    text = "".join(page.read_text() for page in PAGES)
    assert {name for name in generator.TABLES if f"<!-- generated: {name} -->" not in text} == set()


def test_a_stale_table_is_noticed(generator: ModuleType) -> None:
    page = "before\n<!-- generated: errors -->\nold\n<!-- end -->\nafter\n"
    fresh = generator.regenerated(page)
    assert "old" not in fresh
    assert "`input_audio_buffer_empty`" in fresh
    assert fresh.startswith("before\n<!-- generated: errors -->\n")
    assert fresh.endswith("<!-- end -->\nafter\n")
    assert generator.regenerated(fresh) == fresh


def test_a_pipe_in_a_cell_does_not_end_it(generator: ModuleType) -> None:
    assert generator.table(["a"], [["x|y"]]).splitlines()[-1] == "| x\\|y |"
