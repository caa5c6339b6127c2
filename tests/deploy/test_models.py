"""Whoever installs this finds for every model a file to start it with and a page that says what to expect."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from workers.deployments import read_deployment

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parents[2]
FILES = ROOT / "deploy/models"
PAGES = ROOT / "docs/models"
OFFERED = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["duplex_es.models"]
SECTIONS = ("What you need", "Capacity", "When something dies", "What is proven, and what is not")
SHARED = {"echo": "stand-ins", "scripted": "stand-ins"}
"""Models that share a page; every other page has the name of its file."""
WITH_WEIGHTS = ("minicpmo", "personaplex", "nemotron", "qwen3-omni")


def stems() -> dict[str, str]:
    """Model name → the stem of the file that serves it; a shape that is played counts where nothing else serves it."""
    found: dict[str, str] = {}
    for path in sorted(FILES.glob("*.toml")):
        settings = read_deployment(path)
        found[str(settings["model"]) if settings["model"] != "scripted" else path.stem] = path.stem
    return found


@pytest.mark.parametrize("name", OFFERED)
def test_a_model_has_a_deployment_file_and_a_page_that_names_it(name: str) -> None:
    stem = stems()[name]
    page = (PAGES / f"{SHARED.get(name, stem)}.md").read_text()
    assert f"deploy/models/{stem}.toml" in page
    assert f"`{name}`" in page
    row = next(line for line in (PAGES / "README.md").read_text().splitlines() if line.startswith(f"| `{name}`"))
    assert f"`{stem}.toml`" in row and f"({SHARED.get(name, stem)}.md)" in row


@pytest.mark.parametrize("page", sorted(PAGES.glob("[a-z]*.md")), ids=lambda path: path.stem)
def test_a_page_says_what_is_needed_how_many_fit_what_a_crash_costs_and_what_is_proven(page: Path) -> None:
    headings = re.findall(r"^## (.+)$", page.read_text(), re.MULTILINE)
    assert [section for section in SECTIONS if section not in headings] == []


@pytest.mark.parametrize("stem", WITH_WEIGHTS)
def test_a_page_of_published_weights_says_how_to_get_them_on_which_gpu_and_in_which_environment(stem: str) -> None:
    needed = (PAGES / f"{stem}.md").read_text().split("## What you need")[1].split("\n## ")[0]
    assert all(word in needed for word in ("eights", "GPU", "pip install"))


def test_every_page_is_in_the_table_and_every_file_belongs_to_a_model() -> None:
    table = (PAGES / "README.md").read_text()
    assert [path.name for path in PAGES.glob("[a-z]*.md") if f"({path.name})" not in table] == []
    assert [path.name for path in FILES.glob("*.toml") if f"`{path.name}`" not in table] == []
