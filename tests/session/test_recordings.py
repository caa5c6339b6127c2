"""Recorded calls must fold alike in every build: the state after each record is the one that was live then."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pybase64
import pytest

from duplex_es.protocol import ResponseOutputAudioDelta, to_plain
from duplex_es.protocol.records import OutputRecord, unpack_output
from duplex_es.session.facts import unpack_facts
from duplex_es.session.state import Session
from duplex_es.session.step import apply, fold, reproject
from tests.support.ordering import check_order
from tests.support.states import digest_of

pytestmark = pytest.mark.unit

RECORDINGS = sorted((Path(__file__).parent / "recordings").glob("*.jsonl"))


def read(path: Path) -> list[tuple[dict[str, Any], OutputRecord]]:
    """The lines of a recording and their records."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [(line, unpack_output(pybase64.b64decode(line["body"]))) for line in lines]


def test_there_is_a_recording_of_a_spoken_call():
    assert "cascade_call" in [path.stem for path in RECORDINGS]


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_folding_every_prefix_gives_the_state_that_was_live_then(path: Path):
    session = Session()
    for line, record in read(path):
        if isinstance(record.facts, list):
            session = fold(unpack_facts(record.facts), session)
        assert digest_of(session) == line["state"], f"the state after {line['id']} ({line['frame']}) differs"


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_projecting_the_facts_again_gives_the_stored_frames(path: Path):
    session, stored, made = Session(), [], []
    for _, record in read(path):
        if isinstance(record.facts, list):
            session, frames = reproject(unpack_facts(record.facts), session)
            made += [to_plain(frame) for frame in frames]
        stored.append(to_plain(record.frame))

    assert made == stored
    check_order(stored)


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_a_decision_is_stored_with_its_facts_first_and_its_frames_counted(path: Path):
    left = 0
    for line, record in read(path):
        assert isinstance(record.facts, list) == (left == 0), line["id"]
        assert left in (0, record.more + 1), line["id"]
        left = record.more
    assert left == 0


def test_the_recorded_call_held_a_question_a_memory_and_an_interruption():
    records = read(RECORDINGS[[path.stem for path in RECORDINGS].index("cascade_call")])
    session = Session()
    for _, record in records:
        for fact in unpack_facts(record.facts if isinstance(record.facts, list) else []):
            session, _ = apply(session, fact)

    said = [item.transcript for item in session.items]
    assert any("Martin" in text for text in said[1:]) and "42" in said[1]
    assert [item.status for item in session.items if item.role == "assistant"].count("cancelled") == 1
    assert any(isinstance(record.frame, ResponseOutputAudioDelta) for _, record in records)
    assert session.state == "closed" and session.epoch == 1
