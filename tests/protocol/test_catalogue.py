"""The catalogue has every event, and the reference page has for each its rule, its example and a test that shows it."""

from __future__ import annotations

import re
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from duplex_es.protocol import ALIASES, COMMANDS, ERRORS, FRAMES
from duplex_es.protocol.catalogue import CATALOGUE, SECTIONS, Event
from duplex_es.protocol.frames import EXTENSIONS

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parents[2]
SHORTEST_RULE = 40

NOT_SHOWN: dict[str, str] = {}
"""Event → why no test shows it yet. One that is shown may not stand here."""

each_event = pytest.mark.parametrize("event", CATALOGUE.values(), ids=lambda event: event.name)


def loaded(name: str) -> ModuleType:
    """A module of ``ci``, which is no package."""
    spec = spec_from_file_location(name, ROOT / "ci" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules.setdefault(name, module_from_spec(spec))
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def wire() -> ModuleType:
    """What makes the generated parts of the page."""
    return loaded("wire_catalogue")


@pytest.fixture(scope="module")
def page(wire: ModuleType) -> str:
    """The page as it stands."""
    text: str = wire.PAGE.read_text()
    return text


def rule_of(page: str, event: Event) -> str:
    """What is written by hand between an event's heading and what is generated for it."""
    found = re.search(
        rf"^### `{re.escape(event.name)}`\n\n(?P<rule>.*?)\n*^<!-- generated: event {re.escape(event.name)} -->$",
        page,
        re.DOTALL | re.MULTILINE,
    )
    assert found is not None, f"no heading `{event.name}` with its block below it"
    assert "\n#" not in found["rule"], "the block stands under another heading"
    return found["rule"].strip()


def written(page: str) -> str:
    """The page without what is generated."""
    return re.sub(r"<!-- generated: [^>]+ -->.*?<!-- end -->", "", page, flags=re.DOTALL)


# -- the catalogue ---------------------------------------------------------------------------------------------------


def test_it_has_the_21_and_the_42_and_this_services_own_in_their_order() -> None:
    assert (len(COMMANDS), len(FRAMES)) == (21, 42)
    published = [event for event in CATALOGUE.values() if not event.extension]
    by_name = {event.name: event for event in published}
    assert {event.name for event in published if event.direction == "client"} == set(COMMANDS)
    assert {event.name for event in published if event.direction == "server"} == set(FRAMES)
    assert {event.name for event in CATALOGUE.values() if event.extension} == set(EXTENSIONS)
    assert len(by_name) == len(published) == 63
    assert not CATALOGUE.keys() & ALIASES.keys()


@each_event
def test_its_tier_is_that_of_the_frame(event: Event) -> None:
    if event.direction == "server":
        assert event.tier == {**FRAMES, **EXTENSIONS}[event.name].TIER
    assert event.tier in (1, 2, 3)


@each_event
def test_its_rule_is_one_sentence(event: Event) -> None:
    assert re.fullmatch(r"[A-Z][^.\n]+\.", event.rule.replace("server_vad", ""))
    assert event.section in SECTIONS


# -- the page --------------------------------------------------------------------------------------------------------


@each_event
def test_an_event_has_a_rule_under_its_own_heading_in_its_own_part(page: str, event: Event) -> None:
    assert len(rule_of(page, event)) >= SHORTEST_RULE
    parts = re.split(r"^## ", page, flags=re.MULTILINE)
    homes = [part.split("\n", 1)[0] for part in parts if f"\n### `{event.name}`\n" in part]
    assert homes == [event.section]


@each_event
def test_a_published_event_has_an_example(wire: ModuleType, page: str, event: Event) -> None:
    shown = wire.examples().get(event.name, [])
    assert bool(shown) != event.extension
    for example in shown:
        assert f"```json\n{wire.pretty(example)}\n```" in page


@each_event
def test_a_test_shows_the_event(wire: ModuleType, event: Event) -> None:
    passing = [showing for showing in wire.shown_by().get(event.name, []) if not showing.expected_to_fail]
    assert bool(passing) != (event.name in NOT_SHOWN), passing or "mark a test with pytest.mark.shows"


def test_tests_show_only_events_that_exist(wire: ModuleType) -> None:
    assert set(wire.shown_by()) <= set(CATALOGUE)
    assert set(NOT_SHOWN) <= set(CATALOGUE)


def test_every_error_code_has_its_place_in_the_rules(page: str) -> None:
    words = set(re.findall(r"`([a-z0-9_]+)`", written(page)))
    assert ERRORS.keys() - words == set()


def test_the_rules_name_no_error_code_that_cannot_be_said(page: str) -> None:
    like_codes = re.findall(
        r"`(\w+_(?:unsupported|failed|required|mismatch|found|late|exhausted|aborted|busy|empty))`",
        written(page),
    )
    assert set(like_codes) <= ERRORS.keys()


def test_the_page_is_fresh(page: str) -> None:
    assert loaded("generate_docs").regenerated(page) == page, "run `make docs`"


# -- what generates it -----------------------------------------------------------------------------------------------


def test_a_type_is_named_as_json_has_it(wire: ModuleType) -> None:
    assert wire.json_type(int | float) == "number"
    assert wire.json_type(list[str | None]) == "list of string or null"
    assert wire.json_type(dict[str, object] | None) == "object or null"


def test_an_alias_of_a_field_stands_beside_it(wire: ModuleType) -> None:
    block = wire.event_block("playback.ack")
    assert "| `played_ms` | integer |  | `audio_ms` |" in block
    assert "aliases `audio.playback_ack`" in block


def test_only_a_mark_on_a_test_counts_as_showing(wire: ModuleType) -> None:
    source = """
@pytest.mark.shows("session.close")
@pytest.mark.xfail(strict=True, reason="not built")
async def test_one(): ...

@pytest.mark.shows("session.close", "session.closed")
def test_two(): ...

@pytest.mark.shows("session.update")
def prepare(): ...
"""
    found = list(wire._showings(wire.ast.parse(source)))
    assert found == [("test_one", ["session.close"], True), ("test_two", ["session.close", "session.closed"], False)]
