"""The shapes commands and frames share."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from msgspec import UNSET

from duplex_es.protocol import Capabilities, ContentPart, PlaybackLedger, SessionObject, given

pytestmark = pytest.mark.unit

EXAMPLES = json.loads((Path(__file__).parent / "fixtures" / "seed_examples.json").read_text())
CREATED = next(row["event"]["session"] for row in EXAMPLES if row["event"]["type"] == "session.created")


@pytest.mark.parametrize(("value", "result"), [(UNSET, 5), (None, 5), (0, 0), (7, 7)])
def test_a_default_stands_in_only_for_what_was_not_said(value: int | None, result: int) -> None:
    assert given(value, 5) == result


def test_the_published_session_object_is_read_whole_and_written_back() -> None:
    session = msgspec.convert(CREATED, SessionObject)
    assert session.capabilities.supports_barge_in
    written = session.to_wire()
    assert {**written, "capabilities": CREATED["capabilities"]} == CREATED
    assert written["capabilities"] == {**CREATED["capabilities"], "supports_audio_truncate": False}


def test_an_echo_never_covers_what_the_session_says_of_itself() -> None:
    written = SessionObject(id="s").to_wire({"id": "other", "state": "mine", "tools": [{"name": "clock"}]})
    assert (written["id"], written["state"], written["tools"]) == ("s", "open", [{"name": "clock"}])


def test_capabilities_that_are_not_known_are_not_claimed() -> None:
    assert "supports_client_commit" not in msgspec.to_builtins(Capabilities())


def test_null_and_not_said_are_written_differently() -> None:
    assert msgspec.to_builtins(ContentPart(type="input_audio", transcript=None)) == {
        "type": "input_audio",
        "transcript": None,
    }


def test_a_ledger_starts_at_nothing() -> None:
    assert msgspec.structs.astuple(PlaybackLedger()) == (0, 0, 0, 0)
