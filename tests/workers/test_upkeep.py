"""What an owner saves for its successor, and what it lets go of: over hours, within bounds, and never too much."""

from __future__ import annotations

import asyncio
import logging

import msgpack
import pytest

from duplex_es.log.api import START, EntryId
from duplex_es.log.errors import LogUnavailable, PositionGone
from duplex_es.log.memory import MemoryLog
from duplex_es.protocol import AcknowledgeEvents, AppendAudio, CommitInput, Heartbeat
from tests.support.calls import HinderedLog, frame_type, until
from tests.support.long_call import SPOKEN, LongCall, is_whole
from tests.support.states import digest_of
from workers import upkeep
from workers.recovery import recover
from workers.retention import ENTRY_BYTES, MIB, Limits
from workers.snapshots import unpack_snapshot
from workers.upkeep import Upkeep

pytestmark = pytest.mark.unit

KIB = 1024
ANSWER_BYTES = 8 * 48_000
SMALL = Limits(audio_s=600, audio_bytes=3 * MIB, history_bytes=256 * KIB)


def stored(log: MemoryLog, session_id: str = "call") -> tuple[int, int]:
    """How much sound and how much else the log holds of a session, in bytes, as a store would count."""
    session = log._current[session_id]
    entries = [*session.input, *session.output]
    sound = sum(len(entry.audio) + ENTRY_BYTES for entry in entries if entry.audio is not None)
    return sound, sum(len(entry.body) + ENTRY_BYTES for entry in entries) + sum(
        len(one) for _, one in session.snapshots
    )


# -- an hour -------------------------------------------------------------------------------------------------------


async def test_an_hour_of_talk_stays_within_its_bounds_and_can_be_resumed_and_taken_over_at_any_time() -> None:
    log = MemoryLog()
    call = await LongCall.open(log, SMALL, ref_audio="data:audio/wav;base64,AAAA")
    most_sound = most_else = 0
    for second in range(1, 3_601):
        await call.second()
        if second % 20 == 0:
            await call.turn()
        sound, rest = stored(log)
        most_sound, most_else = max(most_sound, sound), max(most_else, rest)
        if second % 90 == 0:
            young = await call.frames_since(call.clock.now_ms - 59_000)
            shown = await call.resume(young[0] - 1)
            assert [entry.id.number for entry in shown] == list(range(young[0], shown[-1].id.number + 1))
            assert all(is_whole(entry) for entry in shown)
        if second % 1_000 == 0:
            await call.kill()
            live = call.actor.session
            await call.serve("w2")
            await until(lambda: call.actor.session.state == "open" and call.actor.session.is_at_rest)
            assert call.actor.session.input.clock.ms <= live.input.clock.ms
            assert [item.id for item in call.actor.session.items] == [item.id for item in live.items]
            assert call.actor._performer.ref_audio == "data:audio/wav;base64,AAAA"
    # What one answer adds at once is dropped with the next look; two snapshots are beside what the bounds are about.
    assert most_sound < SMALL.audio_bytes + ANSWER_BYTES + 256 * KIB
    assert most_else < SMALL.history_bytes + 200 * KIB
    head = await log.head("call")
    assert head.first_seq > 1 and log._current["call"].trimmed_input > START
    assert head.output.number > 4_000
    await call.end()


async def test_minutes_of_a_microphone_that_nobody_speaks_into_stays_within_its_bounds() -> None:
    log = MemoryLog()
    call = await LongCall.open(log, SMALL, updated=False)
    most_sound = most_else = 0
    for _ in range(1_200):
        await call.second(is_speech=False)
        sound, rest = stored(log)
        most_sound, most_else = max(most_sound, sound), max(most_else, rest)
    assert most_sound < SMALL.audio_bytes + 256 * KIB
    assert most_else < SMALL.history_bytes + 100 * KIB
    await call.kill()
    live = call.actor.session
    await call.serve("w2")
    await until(lambda: call.actor.session.state == "open")
    assert call.actor.session.input.clock.ms == live.input.clock.ms
    await call.second()
    await call.turn()
    await call.end()


# -- snapshots -----------------------------------------------------------------------------------------------------


async def snapshots_of(log: MemoryLog) -> list[int]:
    """The seqs of the snapshots that are kept, newest first."""
    seqs: list[int] = []
    below_seq = None
    while (found := await log.read_snapshot(log._current["call"].ref, below_seq=below_seq)) is not None:
        below_seq = found[0]
        seqs.append(below_seq)
    return seqs


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot after every turn, however short."""
    monkeypatch.setattr(upkeep, "SNAPSHOT_AFTER_BYTES", 1)


async def test_a_turn_that_is_over_leaves_a_snapshot_of_the_session_at_rest() -> None:
    log = MemoryLog()
    call = await LongCall.open(log, Limits(), answer_ms=12_000)
    await call.second()
    assert await snapshots_of(log) == []
    await call.turn()
    await until(lambda: bool(log._current["call"].snapshots))
    seq, packed = log._current["call"].snapshots[-1]
    found = unpack_snapshot(packed)
    assert seq == found.standing.seq == (await log.head("call")).output.number
    assert found.standing.session.is_at_rest
    assert digest_of(found.standing.session) == digest_of(call.actor.session)
    await call.end()


async def test_snapshots_are_as_rare_as_they_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    log = MemoryLog()
    written: list[int] = []
    snapshot = log.snapshot

    async def noting(claim, seq, packed):  # type: ignore[no-untyped-def]
        written.append(len(packed))
        await snapshot(claim, seq, packed)

    monkeypatch.setattr(log, "snapshot", noting)
    voice = "data:audio/wav;base64," + "A" * 60_000
    call = await LongCall.open(log, Limits(), answer_ms=2_000, ref_audio=voice)
    for _ in range(30):
        await call.second()
        await call.turn()
    records = sum(len(entry.body) + ENTRY_BYTES for entry in log._current["call"].output)
    assert written and min(written) > 60_000
    assert sum(written) <= records + 100_000
    await call.end()


async def test_silent_facts_that_no_record_holds_are_in_no_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Upkeep, "_snapshot_is_due", lambda self, journal: self._standing.seq == journal.seq)
    log = MemoryLog()
    call = await LongCall.open(log, Limits(), answer_ms=200)
    await call.second()
    await call.turn()
    await call.second()
    await call.caller.say(Heartbeat(), *[AppendAudio(audio=SPOKEN)] * 5)
    await call.caller.hears("session.heartbeat_ack")
    await until(lambda: call.actor.session.input.clock.ms == 3_000)
    before = call.actor.session
    _, packed = log._current["call"].snapshots[-1]
    assert unpack_snapshot(packed).standing.session.input.clock.ms == 2_000
    call.clock.now_ms += 2_000
    await call.caller.say(AppendAudio(audio=SPOKEN))
    await until(lambda: log._current["call"].checkpoint is not None and not call.actor._inbox)
    await call.kill()
    await call.serve("w2")
    await until(lambda: call.actor.session.input.clock.ms == 3_200)
    assert [item.id for item in call.actor.session.items] == [item.id for item in before.items]
    await call.end()


async def test_a_store_that_takes_no_snapshot_costs_the_session_nothing(
    often: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def away(*_: object, **__: object) -> None:
        raise LogUnavailable("not now")

    log = HinderedLog()
    call = await LongCall.open(log, Limits(), answer_ms=4_000)
    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
        patch.setattr(log, "snapshot", away)
        await call.second()
        await call.turn()
        await until(lambda: "not tidied up: not now" in caplog.text)
    await call.second()
    await call.turn()
    await until(lambda: bool(log._current["call"].snapshots))
    await call.end()


async def test_only_the_owner_writes_snapshots_and_drops_anything(often: None) -> None:
    """E20: what was given out with an older generation is refused."""
    log = MemoryLog()
    call = await LongCall.open(log, Limits(), answer_ms=200)
    old = call.actor
    await log.release(old.claim)
    assert await log.claim("w2", ["scripted"]) is not None
    before = (await log.read_input(call.caller.ref, START), await snapshots_of(log))
    await call.caller.say(Heartbeat())
    await asyncio.wait_for(call._task, 30)
    assert await snapshots_of(log) == before[1]
    assert (await log.read_input(call.caller.ref, START))[: len(before[0])] == before[0]


# -- what is dropped, and what is not ------------------------------------------------------------------------------


async def test_what_the_client_acknowledged_goes_before_its_minute_is_over() -> None:
    limits = Limits(audio_s=5, audio_bytes=0, history_s=0, history_bytes=0)
    log = MemoryLog()
    call = await LongCall.open(log, limits, answer_ms=2_000)
    await call.second()
    await call.turn()
    for _ in range(20):
        await call.second(heard=False)
    await call.caller.say(Heartbeat())
    await call.caller.hears("session.heartbeat_ack")
    done = (await log.head("call")).output.number
    assert sum(entry.audio is not None for entry in log._current["call"].output) > 5
    await log.acknowledge(call.caller.attachment, done)
    for _ in range(10):
        await call.second(heard=False)
        await call.caller.say(Heartbeat())
    await until(lambda: not any(entry.audio for entry in log._current["call"].output))
    await call.end()


async def test_the_turn_that_is_not_over_stays_to_be_heard_again_however_long_it_is_ago() -> None:
    limits = Limits(audio_s=5, audio_bytes=10_000, history_s=5, history_bytes=10_000)
    log = MemoryLog()
    call = await LongCall.open(log, limits)
    for second in range(120):
        await call.second(is_speech=second >= 90)
    kept = [entry for entry in log._current["call"].input if entry.audio is not None]
    assert 31 * 5 <= len(kept) < 50 * 5
    await call.kill()
    await call.serve("w2")
    await until(lambda: call.actor.session.input.clock.ms == 120_000)
    await call.turn()
    await call.end()


async def test_history_is_dropped_no_further_than_the_older_of_two_snapshots(often: None) -> None:
    limits = Limits(audio_s=0, audio_bytes=0, history_s=1, history_bytes=0)
    log = MemoryLog()
    call = await LongCall.open(log, limits, answer_ms=4_000)
    for _ in range(3):
        await call.second()
        await call.turn()
    newest, older = await snapshots_of(log)
    for _ in range(200):
        await call.second(heard=False)
    await call.caller.say(Heartbeat())
    await until(lambda: log._current["call"].first_seq > 1)
    assert log._current["call"].first_seq <= older + 1 < newest
    assert await snapshots_of(log) == [newest, older]
    with pytest.raises(PositionGone):
        await log.read_output(call.caller.ref, 0)
    await call.end()


SPEAKS_ON = """[{"on": "end_turn", "do": [{"audio_ms": 320, "pace": "fast", "text": "Well."}, {"speak": true}]}]"""


async def test_what_is_being_answered_and_the_answer_stay_for_a_worker_that_goes_on_with_it(
    often: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "SNAPSHOT_ANYWAY_BYTES", 1)
    limits = Limits(audio_s=5, audio_bytes=10_000, history_s=5, history_bytes=10_000)
    log = MemoryLog()
    call = await LongCall.open(log, limits, script=SPEAKS_ON)
    session = log._current["call"]
    for _ in range(30):
        await call.second()
    spoken = [entry.id for entry in session.input if entry.audio is not None]
    await call.caller.say(CommitInput())
    await call.caller.hears("response.output_audio.delta", 2)
    (created,) = [n for n, frame in enumerate(call.caller.frames, 1) if frame_type(frame) == "response.created"]
    for _ in range(85):
        await call.second(is_speech=False)
        await call.caller.say(*[Heartbeat()] * 10)
    assert len(session.snapshots) == 2 and session.snapshots[0][0] > created + 100
    assert session.first_seq <= created
    kept = {entry.id for entry in session.input if entry.audio is not None}
    assert set(spoken) <= kept
    await call.end()


async def test_a_session_recovered_after_its_beginning_was_dropped_is_the_live_one(often: None) -> None:
    limits = Limits(history_s=1)
    log = MemoryLog()
    call = await LongCall.open(log, limits, answer_ms=400)
    for _ in range(12):
        await call.second()
        await call.turn()
        for _ in range(40):
            await call.second(heard=False)
        await call.caller.say(Heartbeat())
    await call.second()
    assert log._current["call"].trimmed_input > EntryId(1, 1)
    live = call.actor.session
    await call.kill()
    claimed = await log.claim("w2", ["scripted"])
    assert claimed is not None
    found = await recover(log, *claimed, call.clock())
    assert digest_of(found.session) == digest_of(live)
    assert found.snapshot_seq is not None


async def test_an_acknowledgement_that_goes_too_far_is_no_reason_to_drop_what_was_not_sent() -> None:
    log = MemoryLog()
    call = await LongCall.open(log, Limits(audio_s=1), answer_ms=400)
    await call.caller.say(AcknowledgeEvents(server_event_seq=10**6))
    await call.caller.hears("error")
    assert msgpack.unpackb((await log.read_output(call.caller.ref, 0))[-1].body)["frame"]["type"] == "error"
    assert (await log.head("call")).acknowledged_seq == 0
    await call.end()
