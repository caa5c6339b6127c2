"""Part of a session taken out: nothing of it is left, the rest is as it was, and the log still keeps every rule."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgpack
import pytest

from duplex_es.archive.redaction import LATE_MS, Redaction, Scope
from duplex_es.log.api import Entry, Head
from duplex_es.log.memory import MemoryLog
from duplex_es.reading.dxlog import FileSource
from duplex_es.reading.source import LiveSource, Source
from duplex_es.session.events import FACTS
from duplex_es.tools.log.checks import check_session
from tests.support.archives import ANSWERED, ASKED, Listed, at_ms, planted_call
from tests.support.long_call import LongCall
from workers.retention import Limits

pytestmark = pytest.mark.unit

CORPUS = sorted((Path(__file__).resolve().parents[1] / "corpus").glob("*.dxlog"))


async def everything(source: Source, head: Head) -> tuple[list[Entry], list[Entry]]:
    said = [entry async for entry in source.input(head, audio=True)]
    return said, [entry async for entry in source.output(head, audio=True)]


async def redacted(source: Source, head: Head, scope: Scope) -> tuple[Listed, Redaction]:
    """What is left of the session."""
    said, shown = await everything(source, head)
    redaction = Redaction(scope)
    for entry in said:
        redaction.learn_input(entry)
    for entry in shown:
        redaction.learn_output(entry)
    kept = redaction.begin(head.first_seq, await source.snapshots(head))
    left = Listed(
        head,
        [redaction.input(entry) for entry in said],
        [redaction.output(entry) for entry in shown],
        [] if kept is None else [kept],
    )
    return left, redaction


def bytes_of(left: Listed) -> bytes:
    return b"".join(entry.body + (entry.audio or b"") for entry in [*left.said, *left.shown])


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
@pytest.mark.parametrize("third", [0, 1, 2, None])
async def test_a_recording_without_a_part_of_it_keeps_every_rule(path: Path, third: int | None) -> None:
    with FileSource(path) as source:
        said, shown = await everything(source, source.head)
        times = [at_ms(entry) for entry in [*said, *shown]]
        begin, step = min(times), (max(times) - min(times)) // 3
        scope = Scope(from_ms=begin, to_ms=max(times))
        if third is not None:
            scope = Scope(from_ms=begin + third * step, to_ms=begin + (third + 1) * step)
        left, redaction = await redacted(source, source.head, scope)
        assert redaction.changed
        assert [entry.id for entry in left.shown] == [entry.id for entry in shown]
        await check_session(left, source.head)


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
@pytest.mark.parametrize("speaker", ["caller", "assistant", "both"])
async def test_a_recording_without_a_speaker_keeps_every_rule_and_every_word(path: Path, speaker: str) -> None:
    with FileSource(path) as source:
        before = await check_session(source, source.head)
        left, _ = await redacted(source, source.head, Scope(speaker=speaker))
        assert not any(entry.audio for entry in left.said) or speaker == "assistant"
        assert not any(entry.audio for entry in left.shown) or speaker == "caller"
        after = await check_session(left, source.head)
        assert (after.facts, after.answers, after.output_records) == (
            before.facts,
            before.answers,
            before.output_records,
        )
        _, shown = await everything(source, source.head)
        frames = [msgpack.unpackb(entry.body).get("frame") for entry in shown]
        assert [msgpack.unpackb(entry.body).get("frame") for entry in left.shown] == frames


async def test_nothing_that_was_said_in_a_span_is_left_and_the_rest_is_untouched() -> None:
    log = MemoryLog()
    planted = await planted_call(log, turns=3)
    source = LiveSource(log, "")
    head = await source.find("call-1")
    said, shown = await everything(source, head)
    commits = [at_ms(entry) for entry in said if msgpack.unpackb(entry.body)["said"]["type"].endswith(".commit")]
    # The second turn: from the end of the first to the end of its own answer.
    scope = Scope(from_ms=commits[0] + 1_500, to_ms=commits[1] + 500)
    left, _ = await redacted(source, head, scope)
    data = bytes_of(left)
    for sample in planted.caller_samples[3:6]:
        assert sample not in data
    for sample in [*planted.caller_samples[:3], *planted.caller_samples[6:]]:
        assert sample in data
    everything_before = bytes_of(Listed(head, said, shown, []))
    for turn in range(3):
        for word in (ASKED, ANSWERED):
            was = everything_before.count(f"{word}{turn}".encode())
            assert was and data.count(f"{word}{turn}".encode()) == (0 if turn == 1 else was)
    first_turn = [entry for entry in shown if at_ms(entry) < scope.from_ms]  # type: ignore[operator]
    assert list(left.shown[: len(first_turn)]) == first_turn


async def test_the_whole_call_as_a_span_leaves_no_word_and_no_sound() -> None:
    log = MemoryLog()
    planted = await planted_call(log)
    source = LiveSource(log, "")
    head = await source.find("call-1")
    left, _ = await redacted(source, head, Scope(from_ms=0, to_ms=2_000_000_000_000))
    data = bytes_of(left)
    assert [trace for trace in planted.said if trace in data] == []


async def test_sound_that_arrives_just_after_the_span_was_spoken_in_it() -> None:
    log = MemoryLog()
    await planted_call(log)
    source = LiveSource(log, "")
    head = await source.find("call-1")
    said, _ = await everything(source, head)
    with_sound = [entry for entry in said if entry.audio]
    end = at_ms(with_sound[0]) - 1
    left, _ = await redacted(source, head, Scope(from_ms=end - 10, to_ms=end))
    late = [entry for entry, now in zip(said, left.said, strict=True) if entry.audio and not now.audio]
    assert late == [entry for entry in with_sound if at_ms(entry) <= end + LATE_MS]


async def test_what_stands_in_for_trimmed_history_loses_its_words_too() -> None:
    log = MemoryLog()
    limits = Limits(history_s=60.0)
    script = (
        f'[{{"on": "end_turn", "every": true, "transcript": "about {ASKED}", "do": '
        f'[{{"audio_ms": 400, "pace": "fast", "text": "{ANSWERED} then"}}, {{"finish": true}}]}}]'
    )
    call = await LongCall.open(log, limits, script=script)
    async with asyncio.timeout(50):
        while (await log.head("call")).first_seq == 1:
            await call.second()
            await call.turn()
    await call.end()
    source = LiveSource(log, "")
    head = await source.find("call")
    assert ASKED.encode() in (await source.snapshots(head))[0][1]
    left, _ = await redacted(source, head, Scope(from_ms=0, to_ms=2_000_000_000_000))
    findings = await check_session(left, head)
    assert findings.snapshots == 1
    data = bytes_of(left) + left.kept[0][1]
    assert ASKED.encode() not in data and ANSWERED.encode() not in data


def test_every_fact_that_says_something_is_known_to_the_walk() -> None:
    """A new fact whose words lie under a name that is kept would keep them."""
    from duplex_es.archive.masks import KEPT

    words = {
        "text",
        "transcript",
        "hint",
        "arguments",
        "message",
        "instructions",
        "output",
        "item",
        "settings",
        "prompt",
    }
    named = {name for kind in FACTS.values() for name in kind.__struct_fields__}
    assert not words & KEPT
    assert words - {"output"} <= named
