"""The reference page says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from duplex_es.protocol import EXTENSIONS, FRAMES, wire_name
from duplex_es.protocol.dialects import BETA, CODES, DIALECTS, GA, NATIVE, SEED_FIELDS, project
from tests.protocol.dialects import samples

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "reference" / "dialects.md").read_text()
NAME = re.compile(r"`([a-z_]+(?:\.[a-z_]+)+)`")


def rows(heading: str) -> list[list[str]]:
    """The cells of the first table under a heading, without its head."""
    lines = f"\n{PAGE}".split(f"\n{heading}\n", 1)[1].splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("|"))
    table = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        table.append([cell.strip() for cell in line.strip("|").split("|")])
    return table


def test_the_page_names_every_dialect() -> None:
    assert [row[0] for row in rows("# Dialects")] == [f"`{name}`" for name in DIALECTS]


def test_the_page_names_every_setting_of_a_seed_client() -> None:
    listed = PAGE.split("<!-- seed fields -->")[1].split("<!-- end -->")[0]
    assert re.findall(r"`([a-z_]+)`", listed) == sorted(SEED_FIELDS)


def test_the_page_lists_every_code_that_has_another_name() -> None:
    assert [tuple(cell.strip("`") for cell in row) for row in rows("### Error codes")] == sorted(CODES.items())


def test_the_page_lists_every_frame_in_order() -> None:
    assert [row[0].strip("`") for row in rows("### Frames")] == [*FRAMES, *EXTENSIONS]


@pytest.mark.parametrize(("column", "dialect"), [(1, GA), (2, BETA), (3, NATIVE)])
def test_the_page_tells_which_frames_are_heard_and_under_which_name(column: int, dialect: str) -> None:
    for frame, row in zip(samples.EVERY, rows("### Frames"), strict=True):
        name, cell = wire_name(frame), row[column]
        heard = [str(event["type"]) for event in project(frame, dialect)]
        assert (heard == []) == (cell == "—"), name
        renamed = NAME.findall(cell) if cell.startswith("`") else []
        if renamed:
            assert heard[0] in renamed, name
        elif cell in ("same name", "as it stands") or cell.startswith("same name"):
            assert heard == [name], name


def test_the_page_names_the_versions_that_are_installed() -> None:
    pinned = "".join(path.read_text() for path in (ROOT / "deploy" / "requirements").glob("clients-*.txt"))
    for row in rows("## Clients it was run with"):
        package, version = row[0].split("`")[1], row[1]
        assert re.search(rf"^{re.escape(package)}(\[[a-z-]+\])?(==|@){re.escape(version)}$", pinned, re.MULTILINE), row
