"""Recorded calls answered again by a model in this process. All of the corpus is replayed in tests/corpus."""

from __future__ import annotations

from pathlib import Path

import pytest

from duplex_es.reading.calls import read_call
from duplex_es.reading.dxlog import FileSource
from duplex_es.tools.errors import ToolError
from duplex_es.tools.log.checks import check_session
from duplex_es.tools.replay.forking import copy_at
from duplex_es.tools.replay.inprocess import InProcess, Played
from duplex_es.tools.replay.pace import Pace

pytestmark = pytest.mark.unit

CORPUS = Path(__file__).resolve().parents[2] / "corpus"
FAST = {"lead_ms": "none"}


async def played(name: str, model: str, options: dict[str, str], *, only_alike: bool = False) -> Played:
    with FileSource(CORPUS / f"{name}.dxlog") as source:
        replay = InProcess(source, source.head, model, options)
        return await replay.run(Pace(speed=0), lambda _: None, only_alike=only_alike)


async def test_another_answer_is_found_and_the_call_goes_on_from_there() -> None:
    other = '[{"on": "end_turn", "every": true, "transcript": "Hello?", "do": [{"text": "Hi."}, {"finish": true}]}]'
    found = await played("silence", "scripted", {**FAST, "script": other})
    assert found.divergence is None  # The session's own script goes first.
    found = await played("silence", "echo", FAST)
    assert found.divergence is not None and found.divergence.made == "info.name is echo, recorded scripted"
    assert (await check_session(found.source, found.head)).answers == 1
    assert (found.head.model, found.head.state) == ("echo", "closed")


async def test_a_check_stops_where_it_parts() -> None:
    found = await played("silence", "echo", FAST, only_alike=True)
    assert found.divergence is not None and found.divergence.seq == 1
    assert found.head.state != "closed"


async def test_a_call_goes_on_from_the_middle_with_what_was_said_after_it() -> None:
    with FileSource(CORPUS / "silence.dxlog") as source:
        copy = await copy_at(source, source.head, 8, "again")
        replay = InProcess(source, source.head, "scripted", FAST)
        found = await replay.run_from(copy, Pace(speed=0), lambda _: None)
        call = await read_call(found.source, found.head)
    assert [answer.text for answer in call.answers] == ["Hello."]
    assert (found.decisions, found.head.state, found.head.ref.session_id) == (None, "closed", "again")
    await check_session(found.source, found.head)


async def test_steps_are_told_one_by_one() -> None:
    told: list[str] = []
    with FileSource(CORPUS / "silence.dxlog") as source:
        replay = InProcess(source, source.head, "scripted", FAST)
        await replay.run(Pace(steps=True), told.append, only_alike=True)
    assert told[0] == "1-0  SocketAttached" or told[0].startswith("1-0  ")
    assert [line.split("  ")[1] for line in told].count("CommitInput") == 3


@pytest.mark.parametrize(
    ("model", "options", "words"),
    [("nobody", {}, "There is no model 'nobody'"), ("echo", {"mood": "good"}, "mood")],
)
async def test_a_model_that_is_not_there_is_named(model: str, options: dict[str, str], words: str) -> None:
    with pytest.raises(ToolError, match=words):
        await played("silence", model, options)
