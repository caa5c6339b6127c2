"""Recordings of old calls say in this build what they said when they were made; and each can be forked anywhere."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from duplex_es.log.api import Head, Record
from duplex_es.log.forking import begin_from
from duplex_es.log.memory import MemoryLog
from duplex_es.log.tokens import mint_token, token_digest
from duplex_es.model import Model
from duplex_es.protocol import AppendAudio, CloseSession, Heartbeat, SocketAttached, pack_input
from duplex_es.protocol.upcasts import INPUT_STEPS, OUTPUT_STEPS, SCHEMA_VERSION
from duplex_es.reading.calls import read_call
from duplex_es.reading.divergence import first_divergence
from duplex_es.reading.dxlog import FileSource
from duplex_es.reading.source import LiveSource
from duplex_es.tools.errors import ToolError
from duplex_es.tools.log.checks import check_session
from duplex_es.tools.log.fork import ticket_of
from duplex_es.tools.replay.forking import Copy, copy_at
from duplex_es.tools.replay.inprocess import InProcess
from duplex_es.tools.replay.pace import Pace
from duplex_es.tools.replay.reexecution import check
from tests.corpus.golden import GOLDEN, HERE, RECORDINGS, meaning_of
from tests.corpus.scenes import PERSONAPLEX, QWEN
from tests.support.calls import all_output, pcm16, serving
from workers.plugins import make_model
from workers.retention import Limits

pytestmark = [pytest.mark.unit, pytest.mark.timeout(300)]

MOST_BYTES = 6_000_000
SAMPLES = 12
KEEPS_ALL = Limits(audio_s=0, audio_bytes=0, history_s=0, history_bytes=0)
"""The recordings are old: their sound would be dropped at once."""
SCENARIOS = {
    "barge_in", "backchannel", "tool_call", "takeover", "resume", "truncation", "silence", "text_turn", "telephone",
    "chat_lane", "failure", "long_call",
}  # fmt: skip
PROFILES = {QWEN: "qwen3_omni", PERSONAPLEX: "personaplex"}
every_recording = pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
every_quick_model = pytest.mark.parametrize(
    "path", [path for path in RECORDINGS if path.stem != "conversation"], ids=lambda path: path.stem
)


def options_of(head: Head) -> tuple[str, dict[str, str]]:
    """The plug-in that plays the model of a recording, and how fast."""
    if head.model in PROFILES:
        return "scripted", {"profile": PROFILES[head.model]}
    return head.model, {"lead_ms": "none"} if head.model in ("echo", "scripted") else {}


def open_seqs(head: Head, count: int = SAMPLES) -> list[int]:
    """Seqs spread over a recording, its first and the last one before its end among them."""
    last = head.output.number
    return sorted({1, 2, *range(1, last, max(1, last // count)), last - 1})


async def copies(source: FileSource, seqs: list[int]) -> AsyncIterator[tuple[int, Copy]]:
    """The recording as a session that goes on from each of these seqs; where it was over it cannot."""
    for seq in seqs:
        try:
            yield seq, await copy_at(source, source.head, seq, "forked")
        except ToolError as error:
            assert "was over" in str(error)


def test_the_corpus_has_a_recording_of_every_kind_and_stays_small() -> None:
    assert {path.stem for path in RECORDINGS} >= SCENARIOS
    assert {path.stem for path in RECORDINGS} == set(json.loads(GOLDEN.read_text()))
    assert sum(path.stat().st_size for path in HERE.rglob("*.dxlog")) < MOST_BYTES


@every_recording
async def test_a_recording_means_what_it_meant(path: Path) -> None:
    """All rules hold, frames byte for byte among them, and every decision comes out as it was recorded."""
    found = await meaning_of(path)
    assert found["diverges"] is None
    assert found == json.loads(GOLDEN.read_text())[path.stem]


@every_quick_model
async def test_its_own_model_answers_a_recording_as_it_did(path: Path) -> None:
    """The diff of a session with its own replay is empty, sound included."""
    with FileSource(path) as source:
        replay = InProcess(source, source.head, *options_of(source.head))
        played = await replay.run(Pace(speed=0), lambda _: None, only_alike=True)
        assert played.divergence is None
        assert await first_divergence(source, source.head, played.source, played.head) is None
        findings = await check_session(played.source, played.head)
        assert findings.output_records == source.head.output.number


@every_recording
async def test_a_fork_at_any_seq_is_a_sound_session(path: Path) -> None:
    with FileSource(path) as source:
        last = source.head.output.number
        seqs = list(range(1, last + 1)) if last < 200 else open_seqs(source.head, 40)
        forked = 0
        async for seq, copy in copies(source, seqs):
            log = MemoryLog()
            await begin_from(log, copy.head, b"", copy.input, copy.output, copy.snapshots)
            held = LiveSource(log, "memory://")
            head = await held.find("forked")
            assert (head.state, head.output.number) == ("waiting", seq)
            findings = await check_session(held, head)
            assert findings.output_records == seq
            assert (await check(held, head)).divergence is None, seq
            forked += 1
        assert forked >= len(seqs) * 0.7


@asynccontextmanager
async def worker_for(head: Head, log: MemoryLog) -> AsyncIterator[Model]:
    name, options = options_of(head)
    model = make_model(name, options)
    await model.load()
    async with serving(log, model, "successor", limits=KEEPS_ALL):
        yield model


async def take_up(log: MemoryLog, copy: Copy, token: str) -> Head:
    """A client takes the fork up, says something, and closes it; the session when it is over."""
    ticket = ticket_of(copy, token)
    seq = ticket.after_seq
    attached = pack_input(SocketAttached(generation=copy.head.generation + 1, gateway="g9"), 0).body
    attachment, _ = await log.attach(
        copy.head.ref,
        presented_digest=token_digest(ticket.resume_token),
        next_digest=b"next",
        gateway="g9",
        record=attached,
        after_seq=seq,
    )
    await log.confirm(attachment)
    settings = copy.session.settings
    said = [AppendAudio(audio=pcm16(80, rate_hz=settings.input_rate_hz)), Heartbeat()]
    if settings.input_format != "pcm16":
        said = said[1:]
    await log.append_input(attachment, 1, [Record(*pack_input(one, 0)) for one in said])
    frames: list[str] = []

    async def shown() -> bool:
        frames[:] = [entry.body.decode("latin1") for entry in await all_output(log, copy.head.ref, after_seq=seq)]
        return any("session.heartbeat" in frame or "session.closed" in frame for frame in frames)

    async with asyncio.timeout(30):
        while not await shown():
            await asyncio.sleep(0.002)
    if (await log.head("forked")).state != "closed":
        await log.append_input(attachment, len(said) + 1, [Record(*pack_input(CloseSession(), 0))])
    async with asyncio.timeout(30):
        while (await log.head("forked")).state != "closed":
            await asyncio.sleep(0.002)
    return await log.head("forked")


@every_quick_model
async def test_a_fork_continues_with_a_worker_and_a_client(path: Path) -> None:
    with FileSource(path) as source:
        async for seq, copy in copies(source, open_seqs(source.head)):
            log, token = MemoryLog(), mint_token()
            await begin_from(log, copy.head, token_digest(token), copy.input, copy.output, copy.snapshots)
            async with worker_for(source.head, log):
                head = await take_up(log, copy, token)
            held = LiveSource(log, "memory://")
            assert head.output.number > seq
            await check_session(held, head)
            assert (await check(held, head)).divergence is None, seq
            facts = str([entry.body async for entry in held.output(head, seq)])
            # The one whose model fails for good may do so again before anything else is decided.
            assert "SessionForked" in facts or path.stem == "failure"


async def test_an_answer_that_was_cut_by_the_fork_goes_on_to_its_last_word() -> None:
    with FileSource(HERE / "takeover.dxlog") as source:
        whole = (await read_call(source, source.head)).answers[0].text
        copy = await copy_at(source, source.head, 30, "forked")
        log, token = MemoryLog(), mint_token()
        await begin_from(log, copy.head, token_digest(token), copy.input, copy.output, copy.snapshots)
        held = LiveSource(log, "memory://")
        async with worker_for(source.head, log):
            texts: list[str] = []

            async def look() -> None:
                call = await read_call(held, await held.find("forked"))
                texts[:] = [answer.text for answer in call.answers if answer.status == "completed"]

            async with asyncio.timeout(30):
                while not texts:
                    await look()
                    await asyncio.sleep(0.01)
    assert texts == [whole]
    assert copy.cut == 0


async def test_a_recording_of_an_older_schema_says_the_same() -> None:
    with FileSource(HERE / "older" / "schema_0.dxlog") as old, FileSource(HERE / "barge_in.dxlog") as new:
        assert old.manifest.schema_version == 0
        assert old.broken_chain() is None
        assert [*old.entries("input")] == [*new.entries("input")]
        assert await first_divergence(old, old.head, new, new.head) is None
        found = await check_session(old, old.head)
        assert (found.facts, found.answers) == (38, 2)
        assert (await check(old, old.head)).divergence is None


def test_every_older_schema_has_its_step_and_its_recording() -> None:
    versions = set(range(SCHEMA_VERSION))
    assert set(INPUT_STEPS) == set(OUTPUT_STEPS) == versions
    assert {path.name for path in (HERE / "older").iterdir()} == {f"schema_{number}.dxlog" for number in versions}


