"""The state is its log: folded at any point, cut at any point, it is what the worker had."""

from __future__ import annotations

from dataclasses import dataclass, replace

import msgpack
import msgspec
import pytest

from duplex_es.log.api import START, Claim, Entry, EntryId, Head, Record, SessionRef
from duplex_es.log.errors import Fenced, PositionGone
from duplex_es.log.memory import MemoryLog
from duplex_es.protocol import (
    AcknowledgePlayback,
    CancelResponse,
    ClearInput,
    CloseSession,
    CommitInput,
    CreateItem,
    CreateResponse,
    DeleteItem,
    Heartbeat,
    UpdateSession,
)
from duplex_es.session.events import AudioAppended, Fact, SocketChanged
from duplex_es.session.facts import LogCorrupt, pack_fact, unpack_facts
from duplex_es.session.state import Session
from duplex_es.session.step import Decision, fold
from tests.support.calls import Caller, all_output, check_log, pcm16, serving
from workers.journal import Checkpoint, Journal
from workers.models.echo import EchoModel
from workers.models.scripted import ScriptedModel
from workers.recovery import Recovered, recover

pytestmark = pytest.mark.unit

SCRIPT = """[
  {"on": "end_turn", "transcript": "what is the weather",
   "do": [{"audio_ms": 400, "text": "It is sunny today."}, {"finish": true}]},
  {"on": "end_turn", "transcript": "and tomorrow",
   "do": [{"audio_ms": 320, "text": "Wait a moment."}, {"audio_ms": 160, "pace": "fast"}]},
  {"on": "generate", "do": [{"function_call": {"name": "look", "arguments": {"at": "sky"}, "call_id": "call_1"}},
   {"audio_ms": 200, "text": "Looking."}, {"finish": true}]}
]"""


@dataclass
class Recording:
    """One call as it happened: what the log holds, and the live state after each decision, by its last seq."""

    log: MemoryLog
    ref: SessionRef
    entries: list[Entry]
    live: dict[int, Session]

    def state_at(self, seq: int) -> Session:
        """The live state once the decision that ``seq`` belongs to was taken."""
        return self.live[min(last for last in self.live if last >= seq)]

    async def cut(self, seq: int) -> tuple[MemoryLog, Claim, Head]:
        """A log that ends after ``seq``, claimed anew after its first owner died."""
        log = MemoryLog()
        await log.create(self.ref, model="m", token_digest=b"", gateway="g", record=b"")
        first = await log.claim("w1", ["m"])
        assert first is not None
        await log.append_output(first[0], 1, [Record(entry.body, entry.audio) for entry in self.entries[:seq]])
        await log.release(first[0])
        second = await log.claim("w2", ["m"])
        assert second is not None
        return log, *second


def facts_in(entry: Entry) -> list[Fact]:
    """The facts of a record, read past the code under test."""
    raw = msgspec.msgpack.decode(entry.body, type=dict[str, msgspec.Raw]).get("facts")
    return list(unpack_facts(msgspec.msgpack.decode(raw, type=list[msgspec.Raw]))) if raw is not None else []


@pytest.fixture
def live(monkeypatch: pytest.MonkeyPatch) -> dict[int, Session]:
    """The state after each decision that shows something, noted as it is taken."""
    seen: dict[int, Session] = {}
    take_in = Journal.take_in

    def noting(journal: Journal, decisions: list[Decision], consumed: EntryId, now_ms: int) -> list[Record]:
        made = take_in(journal, decisions, consumed, now_ms)
        if made:
            seen[journal.seq] = decisions[-1].session
        return made

    monkeypatch.setattr(Journal, "take_in", noting)
    return seen


async def echo_call(live: dict[int, Session]) -> Recording:
    log = MemoryLog()
    async with serving(log, EchoModel({"lead_ms": "none"})):
        caller = await Caller.open(log, "echo", instructions="Repeat.", sample_rate_hz=24_000)
        for spoken_ms in (300, 500):
            await caller.append(pcm16(spoken_ms, rate_hz=24_000), *[pcm16(100, rate_hz=24_000, level=0)] * 8)
            await caller.hears("response.done", len(caller.heard("response.done")) + 1)
        await caller.say(CreateItem(item={"type": "message", "role": "user", "content": [text("hello there")]}))
        await caller.say(CreateResponse(), Heartbeat(), ClearInput())
        await caller.hears("response.done", 3)
        await caller.say(CloseSession())
        await caller.ends("session_close")
    return Recording(log, caller.ref, await all_output(log, caller.ref), live)


async def scripted_call(live: dict[int, Session]) -> Recording:
    log = MemoryLog()
    async with serving(log, ScriptedModel({"lead_ms": "none", "script": SCRIPT})):
        caller = await Caller.open(log, "scripted", playback_commit_policy="ack_only")
        await caller.append(*[pcm16(40)] * 10, is_speech=True)
        await caller.say(CommitInput())
        (done,) = await caller.hears("response.done")
        item_id = done.response.output[0].id
        await caller.say(AcknowledgePlayback(item_id=item_id, played_ms=150, committed_ms=120))
        await caller.say(AcknowledgePlayback(item_id=item_id, played_ms=400, committed_ms=400))
        await caller.append(*[pcm16(40)] * 10)
        await caller.say(CommitInput())
        await caller.hears("response.output_audio.delta", len(caller.heard("response.output_audio.delta")) + 3)
        await caller.say(CancelResponse())
        await caller.hears("response.done", 2)
        await caller.say(UpdateSession(session={"instructions": "Be brief."}), DeleteItem(item_id="nobody"))
        await caller.say(CreateItem(item={"type": "message", "role": "user", "content": [text("look up")]}))
        await caller.say(CreateResponse())
        await caller.hears("response.done", 4)
        await caller.say(CloseSession())
        await caller.ends("session_close")
    return Recording(log, caller.ref, await all_output(log, caller.ref), live)


def text(said: str) -> dict[str, object]:
    return {"type": "input_text", "text": said}


CALLS = pytest.mark.parametrize("call", [echo_call, scripted_call], ids=["echo", "scripted"])


@CALLS
async def test_folding_the_log_gives_the_live_state_at_every_prefix(call, live: dict[int, Session]) -> None:
    recording = await call(live)
    await check_log(recording.log, recording.ref, ended=True)
    assert len(recording.entries) > 40
    for seq in range(1, len(recording.entries) + 1):
        facts = [fact for entry in recording.entries[:seq] for fact in facts_in(entry)]
        assert fold(facts) == recording.state_at(seq), f"seq {seq}"


@CALLS
async def test_recovering_gives_the_live_state_and_the_position_at_every_prefix(call, live: dict[int, Session]) -> None:
    recording = await call(live)
    for seq in range(1, len(recording.entries) + 1):
        log, claim, head = await recording.cut(seq)
        recovered = await recover(log, claim, head, 0)
        assert recovered.session == recording.state_at(seq)
        assert recovered.seq == seq
        assert recovered.pending == ()
        assert str(recovered.consumed) == msgpack.unpackb(recording.entries[seq - 1].body)["consumed"]


@CALLS
async def test_a_decision_cut_after_any_record_is_finished_with_the_same_bytes(call, live: dict[int, Session]) -> None:
    recording = await call(live)
    cuts = 0
    for seq in range(1, len(recording.entries) + 1):
        last = msgpack.unpackb(recording.entries[seq - 1].body)
        log, claim, head = await recording.cut(seq)
        recovered = await recover(log, claim, head, last["at_ms"])
        control = recording.entries[seq : seq + last["more"]]
        assert [record.body for record in recovered.unfinished] == [entry.body for entry in control], f"seq {seq}"
        assert recovered.journal().seq == seq + last["more"]
        cuts += bool(control)
    assert cuts > 15


@CALLS
async def test_a_log_that_was_finished_reads_like_one_that_never_was_cut(call, live: dict[int, Session]) -> None:
    recording = await call(live)
    for seq in range(1, len(recording.entries) + 1):
        log, claim, head = await recording.cut(seq)
        recovered = await recover(log, claim, head, 0)
        await log.append_output(claim, seq + 1, recovered.unfinished)
        bodies = [msgpack.unpackb(entry.body) for entry in await all_output(log, recording.ref)]
        control = [msgpack.unpackb(entry.body) for entry in recording.entries[: len(bodies)]]
        assert [body["frame"] for body in bodies] == [body["frame"] for body in control]
        assert bodies[-1]["more"] == 0
        again = await recover(log, claim, await log.head(recording.ref.session_id), 0)
        assert again.unfinished == ()
        assert again.session == recovered.session


# -- checkpoints ---------------------------------------------------------------------------------------------------


class Stored:
    """A claimed session whose log holds whatever a test puts there."""

    def __init__(self, log: MemoryLog, claim: Claim) -> None:
        self.log = log
        self.claim = claim

    @classmethod
    async def new(cls) -> Stored:
        log = MemoryLog()
        ref = SessionRef("s", 0)
        await log.create(ref, model="m", token_digest=b"", gateway="g", record=b"")
        claimed = await log.claim("w", ["m"])
        assert claimed is not None
        return cls(log, claimed[0])

    async def write(self, seq: int, *facts: Fact, consumed: str = "1-1", more: int = 0, v: int = 1) -> None:
        """One record, made with nothing but a MessagePack writer."""
        frame = {"type": "session.heartbeat_ack", "session_id": "s"}
        body = {"v": v, "at_ms": 1, "frame": frame, "consumed": consumed, "more": more}
        if facts:
            body["facts"] = [msgpack.unpackb(bytes(pack_fact(fact))) for fact in facts]
        await self.log.append_output(self.claim, seq, [Record(msgpack.packb(body))])

    async def save(self, seq: int, *facts: Fact, consumed: str = "1-5") -> None:
        packed = Checkpoint(seq=seq, consumed=consumed, facts=[pack_fact(fact) for fact in facts])
        await self.log.checkpoint(self.claim, msgspec.msgpack.encode(packed))

    async def recover(self) -> Recovered:
        return await recover(self.log, self.claim, await self.log.head("s"), 0)


ATTACHED = SocketChanged(generation=1, attached=True)
SOUND = AudioAppended(samples=1_600, rate_hz=16_000)


async def test_a_session_that_nobody_served_yet_is_new() -> None:
    stored = await Stored.new()
    recovered = await stored.recover()
    assert (recovered.session, recovered.seq, recovered.consumed) == (Session(), 0, START)
    assert (recovered.pending, recovered.unfinished, recovered.end) == ((), (), None)
    assert tuple(recovered.retention.marks) == ()


async def test_a_checkpoint_of_the_last_seq_brings_its_facts_and_its_position() -> None:
    stored = await Stored.new()
    await stored.write(1, ATTACHED)
    await stored.save(1, SOUND, SOUND)
    recovered = await stored.recover()
    assert recovered.pending == (SOUND, SOUND)
    assert recovered.session == fold([ATTACHED, SOUND, SOUND])
    assert recovered.consumed == EntryId(1, 5)


async def test_the_facts_of_a_checkpoint_stay_pending_for_the_next_owner() -> None:
    stored = await Stored.new()
    await stored.write(1, ATTACHED)
    await stored.save(1, SOUND)
    saved = msgspec.msgpack.decode((await stored.recover()).journal().checkpoint(), type=Checkpoint)
    assert list(unpack_facts(saved.facts)) == [SOUND]
    assert (saved.seq, saved.consumed) == (1, "1-5")


async def test_a_checkpoint_of_an_earlier_seq_is_out_of_date() -> None:
    stored = await Stored.new()
    await stored.write(1, ATTACHED, consumed="1-1")
    await stored.save(1, SOUND)
    await stored.write(2, SOUND, consumed="1-6")
    recovered = await stored.recover()
    assert recovered.session == fold([ATTACHED, SOUND])
    assert recovered.pending == ()
    assert recovered.consumed == EntryId(1, 6)


async def test_a_checkpoint_before_any_record_counts() -> None:
    stored = await Stored.new()
    await stored.save(0, ATTACHED, consumed="1-1")
    assert (await stored.recover()).session == fold([ATTACHED])


# -- logs that do not hold together --------------------------------------------------------------------------------


async def test_a_hole_in_the_log_is_corruption() -> None:
    stored = await Stored.new()
    await stored.write(1, ATTACHED)
    await stored.write(2, SOUND)
    await stored.write(3, SOUND)
    session = stored.log._current["s"]
    session.output = [entry for entry in session.output if entry.id.number != 2]
    with pytest.raises(LogCorrupt, match="seq 2 is missing"):
        await stored.recover()


async def test_a_log_that_ends_before_its_head_is_corruption() -> None:
    stored = await Stored.new()
    await stored.write(1, ATTACHED)
    head = replace(await stored.log.head("s"), output=EntryId(1, 4))
    with pytest.raises(LogCorrupt, match="ends at seq 1, its head says 4"):
        await recover(stored.log, stored.claim, head, 0)


async def test_a_log_in_which_a_newer_claim_wrote_is_not_corrupt_but_lost() -> None:
    stored = await Stored.new()
    head = await stored.log.head("s")
    await stored.log.release(stored.claim)
    taken = await stored.log.claim("w2", ["m"])
    assert taken is not None
    successor = Stored(stored.log, taken[0])
    await successor.write(1, ATTACHED)
    with pytest.raises(Fenced):
        await recover(stored.log, stored.claim, head, 0)


async def test_a_record_of_another_version_is_corruption_and_not_a_guess() -> None:
    stored = await Stored.new()
    await stored.write(1, ATTACHED, v=2)
    with pytest.raises(LogCorrupt, match="version 2"):
        await stored.recover()


async def test_a_fact_that_this_build_does_not_know_is_corruption() -> None:
    stored = await Stored.new()
    body = {"v": 1, "at_ms": 1, "facts": [{"fact": "MoonRose"}], "more": 0}
    await stored.log.append_output(stored.claim, 1, [Record(msgpack.packb(body))])
    with pytest.raises(LogCorrupt, match="MoonRose"):
        await stored.recover()


@pytest.mark.parametrize("packed", [b"\xc1", msgpack.packb({"v": 9, "seq": 0, "consumed": "0-0"})])
async def test_a_checkpoint_that_cannot_be_read_is_corruption(packed: bytes) -> None:
    stored = await Stored.new()
    await stored.log.checkpoint(stored.claim, packed)
    with pytest.raises(LogCorrupt, match="checkpoint"):
        await stored.recover()


async def test_a_decision_that_promised_more_frames_than_its_facts_show_is_corruption() -> None:
    stored = await Stored.new()
    await stored.write(1, ATTACHED, more=3)
    with pytest.raises(LogCorrupt, match="shows 0 frames, its record says 4"):
        await stored.recover()


async def test_a_trimmed_beginning_is_said_to_be_gone() -> None:
    stored = await Stored.new()
    for seq in (1, 2, 3):
        await stored.write(seq, SOUND)
    session = stored.log._current["s"]
    session.output = [entry for entry in session.output if entry.id.number > 1]
    with pytest.raises(PositionGone):
        await stored.recover()
