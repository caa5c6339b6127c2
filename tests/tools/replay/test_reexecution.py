"""Decisions made again: alike for what was recorded, and the first that is another is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from duplex_es.log.api import Entry, Head
from duplex_es.protocol.records import pack_output, unpack_output
from duplex_es.reading.dxlog import FileSource
from duplex_es.session import step as core
from duplex_es.session.events import AudioAppended, Fact, Listened
from duplex_es.session.facts import pack_fact, unpack_facts
from duplex_es.session.overlap import overlap_decision
from duplex_es.session.state import replace
from duplex_es.tools.errors import ToolError
from duplex_es.tools.replay.reexecution import Checked, check

pytestmark = pytest.mark.unit

CORPUS = Path(__file__).resolve().parents[2] / "corpus"


class Changed:
    """A recording of which a test has changed one decision's facts."""

    name = "a changed recording"

    def __init__(self, name: str, change: Callable[[Fact], Fact]) -> None:
        self._change = change
        self._path = CORPUS / f"{name}.dxlog"
        with FileSource(self._path) as source:
            self.head: Head = source.head
            self._streams = {stream: [*source.entries(stream)] for stream in ("input", "output")}
        self._streams["output"] = [self._changed(entry) for entry in self._streams["output"]]

    def _changed(self, entry: Entry) -> Entry:
        record = unpack_output(entry.body)
        if not isinstance(record.facts, list):
            return entry
        facts = [pack_fact(self._change(fact)) for fact in unpack_facts(record.facts)]
        frame = None if isinstance(record.frame, msgspec.UnsetType) else record.frame
        consumed = record.consumed if isinstance(record.consumed, str) else None
        body = pack_output(record.at_ms, frame=frame, facts=facts, consumed=consumed, more=record.more).body
        return Entry(entry.id, body, entry.audio)

    async def input(self, head: Head, after: Any = None, *, audio: bool = False) -> Any:
        for entry in self._streams["input"]:
            yield entry

    async def output(self, head: Head, after_seq: int = 0, *, audio: bool = False) -> Any:
        for entry in self._streams["output"]:
            yield entry


async def checked(name: str, change: Callable[[Fact], Fact] = lambda fact: fact) -> Checked:
    source = Changed(name, change)
    return await check(source, source.head)  # type: ignore[arg-type]


async def test_a_recording_is_decided_again_as_it_was() -> None:
    found = await checked("barge_in")
    assert found.divergence is None
    assert (found.decisions, found.facts, found.frames, found.commands, found.undecided) == (20, 38, 64, 16, 0)


async def test_a_fact_that_no_rule_of_today_leads_to_is_named_with_its_place() -> None:
    """Somebody counted one sample more than was sent."""

    def change(fact: Fact) -> Fact:
        return replace(fact, samples=fact.samples + 1) if isinstance(fact, AudioAppended) else fact

    found = await checked("silence", change)
    assert found.divergence is not None
    assert found.divergence.seq > 1 and found.divergence.where.startswith("output 1-")
    assert "AudioAppended" in found.divergence.recorded


async def test_a_rule_that_changed_is_found_by_the_recordings(monkeypatch: pytest.MonkeyPatch) -> None:
    """The session of this build drops what the recorded one kept."""

    def stricter(*arguments: Any) -> Any:
        decided = overlap_decision(*arguments)
        return None if decided is None else replace(decided, reason="because")

    monkeypatch.setattr("duplex_es.session.appending.overlap_decision", stricter)
    found = await checked("barge_in")
    assert found.divergence is not None
    assert "OverlapDecided" in found.divergence.recorded and "because" in found.divergence.made


async def test_a_projection_that_changed_is_found_too(monkeypatch: pytest.MonkeyPatch) -> None:
    real = core.project

    def project(before: Any, fact: Fact, after: Any, audio: bytes = b"") -> Any:
        frames = real(before, fact, after, audio)
        return [replace(frame, epoch=99) for frame in frames] if isinstance(fact, Listened) else frames

    monkeypatch.setattr(core, "project", project)
    found = await checked("silence")
    assert found.divergence is not None
    assert "response.listen" in found.divergence.recorded


async def test_what_had_no_time_to_be_decided_is_counted_and_no_fault() -> None:
    source = Changed("text_turn", lambda fact: fact)
    source._streams["output"] = source._streams["output"][:14]
    found = await check(source, replace_head(source.head))  # type: ignore[arg-type]
    assert found.divergence is None
    assert found.undecided > 0


def replace_head(head: Head) -> Head:
    """The head of a session that still goes on after seq 14."""
    import dataclasses

    from duplex_es.log.api import EntryId

    return dataclasses.replace(head, state="claimed", output=EntryId(1, 14))


async def test_a_session_without_its_beginning_is_refused_in_words() -> None:
    import dataclasses

    source = Changed("text_turn", lambda fact: fact)
    with pytest.raises(ToolError, match="records before seq 5 are gone"):
        await check(source, dataclasses.replace(source.head, first_seq=5))  # type: ignore[arg-type]
