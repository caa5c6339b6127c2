"""Whatever is said in whatever order, the promises of a session hold: tried on thousands of random lives.

``HYPOTHESIS_PROFILE=soak`` plays twenty times as many, and longer ones.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from duplex_es.model import Signal
from duplex_es.protocol import AppendAudio, AppendText, ClientEvent, Frame, OpenSession, PlaybackLedger
from duplex_es.session.events import FACTS, Fact, ItemCreated, ItemTruncated, PlaybackAcknowledged
from duplex_es.session.facts import pack_fact, unpack_facts
from duplex_es.session.inputs import AudioArrived, Input, SpeechReady
from duplex_es.session.lifecycle import timers
from duplex_es.session.projection.session_object import session_object
from duplex_es.session.state import Session
from duplex_es.session.step import Decision, apply, fold, merged, reproject, step
from duplex_es.session.waiting import what_follows
from tests.session.programs import OFTEN, USUAL, Move, opening, play, wire
from tests.support.ordering import ResponseOrderChecker

pytestmark = [pytest.mark.unit, pytest.mark.timeout(1800)]

SOAK = settings.get_current_profile_name() == "soak"
PROGRAMS = 50_000 if SOAK else 2_500
LONGEST = 120 if SOAK else 45

numbers = st.integers(0, 255)
moves: st.SearchStrategy[Move] = st.tuples(st.sampled_from((*USUAL, *OFTEN)), numbers, numbers)
programs = st.lists(moves, min_size=8, max_size=LONGEST)
endings = st.sampled_from(("close", "model lost", "timer", "open again"))

play_many = settings(
    max_examples=PROGRAMS,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

SILENTLY_ACCEPTED = (AppendAudio, AppendText)
"""Commands that may be accepted without an answer: audio, of which there are fifty a second, and typed text, which only
gathers. Everything else that a client says is answered by at least one frame, until ``session.closed``, the last."""
TAKEN_ALL_THE_SAME = ("barge_in_unsupported", "input_backpressure")
"""What an append may be told and yet be taken: that it cannot interrupt, or that the turn it ended is dropped."""


class Life:
    """One session under watch: every step is checked as it is taken."""

    def __init__(self) -> None:
        self.session = Session()
        self.facts: list[Fact] = []
        self.frames: list[Frame] = []
        self.order = ResponseOrderChecker()

    def take(self, said: Input) -> Decision:
        """Decide once, check every promise, go on."""
        before = self.session
        decision = step(before, said, 1_000)
        assert step(before, said, 1_000) == decision, "deciding twice gives two answers"
        self._check_facts(before, decision, said)
        self._check_counters(before, decision)
        self._check_answered(before, decision, said)
        self._check_nobody_waits_for_nothing(decision.session)
        for frame in decision.frames:
            self.order.take(frame)
        self.session = decision.session
        self.facts += decision.facts
        self.frames += decision.frames
        return decision

    def _check_facts(self, before: Session, decision: Decision, said: Input) -> None:
        packed = [pack_fact(fact) for fact in decision.facts]
        facts = tuple(unpack_facts(packed))
        assert facts == decision.facts, "a fact comes back from the log as another one"
        audio = said.audio if isinstance(said, SpeechReady) else getattr(said, "pcm", b"")
        after, frames = reproject(facts, before, audio)
        assert after == decision.session, "folding the stored facts leads elsewhere"
        assert tuple(frames) == decision.frames, "the frames of stored facts come out differently"

    def _check_counters(self, before: Session, decision: Decision) -> None:
        after = decision.session
        assert after.epoch >= before.epoch
        assert after.turn_id >= before.turn_id
        assert after.responses_count >= before.responses_count
        assert after.items_count >= before.items_count
        assert after.input.clock.ms >= before.input.clock.ms
        replaced = {fact.item.id for fact in decision.facts if isinstance(fact, ItemCreated)}
        truncated = {fact.item_id for fact in decision.facts if isinstance(fact, ItemTruncated)}
        truncated |= {
            fact.item_id for fact in decision.facts if isinstance(fact, PlaybackAcknowledged) and fact.truncate
        }
        for item in before.items:
            later = after.item(item.id)
            if later is None or item.id in replaced or later is item:
                continue
            for name in PlaybackLedger.__struct_fields__:
                lowered = getattr(later.ledger, name) < getattr(item.ledger, name)
                assert not lowered or (name == "committed_ms" and item.id in truncated), (name, item, later)
            if item.cap_ms is not None:
                assert later.cap_ms is not None
                assert later.cap_ms <= item.cap_ms, "a cap never rises"

    def _check_nobody_waits_for_nothing(self, after: Session) -> None:
        """What is announced is owed by somebody, and what waits has something to wait for."""
        if after.state != "open":
            return
        assert what_follows(after, after, ()) == (), "something is due and was not done"
        waiting = after.waiting
        if waiting is not None:
            item = after.item(waiting.item_id)
            assert item is not None, "a turn waits that is gone"
            assert waiting.failed or after.response is not None or after.input.item_id is not None
        live = after.response
        if live is not None and live.held is not None:
            assert after.is_transcribing, "a request is held for nothing"

    def _check_answered(self, before: Session, decision: Decision, said: Input) -> None:
        command = said.command if isinstance(said, AudioArrived) else said
        if not isinstance(command, ClientEvent) or before.state == "closed":
            return
        assert decision.frames or isinstance(command, SILENTLY_ACCEPTED), f"no answer to {command}"
        refused = [fact for fact in decision.facts if type(fact).__name__ == "CommandRejected"]
        if isinstance(command, AppendAudio) and len(decision.facts) > 1:
            assert all(fact.code in TAKEN_ALL_THE_SAME for fact in refused)
        elif refused:
            assert len(decision.facts) == 1, "a refusal changes nothing"
            assert decision.session == before
            assert decision.effects == ()
            (frame,) = decision.frames
            stated = command.event_id if isinstance(command.event_id, str) else msgspec.UNSET
            assert frame.error.event_id == stated  # type: ignore[union-attr]


def lived(start: tuple[int, int], program: Sequence[Move], ending: Move | None = None) -> Life:
    """A life from its opening to its end."""
    life = Life()
    life.take(opening(*start))
    for move in program:
        life.take(play(life.session, move))
    if ending is not None:
        life.take(play(life.session, ending))
    return life


@play_many
@given(st.tuples(numbers, numbers), programs, st.tuples(endings, numbers, numbers))
def test_no_life_breaks_a_promise(start: tuple[int, int], program: list[Move], ending: Move) -> None:
    life = lived(start, program, ending)
    assert fold(life.facts) == life.session, "the log does not lead to the live state"
    _, again = reproject(life.facts, Session())
    assert len(again) == len(life.frames)
    assert fold(_compacted(life.facts)) == life.session, "merged facts lead elsewhere"
    if life.session.state != "closed":
        life.take(wire({"type": "session.close"}))
    life.order.ended()
    closed = life.session
    for move in program[:5]:
        decision = step(closed, play(closed, move), 1_000)
        assert (decision.session, decision.facts, decision.frames, decision.effects) == (closed, (), (), ())


def _compacted(facts: Sequence[Fact]) -> list[Fact]:
    """The facts as a journal writes them: those in a row that can be one, as one."""
    written: list[Fact] = []
    for fact in facts:
        joined = merged(written[-1], fact) if written else None
        if joined is None:
            written.append(fact)
        else:
            written[-1] = joined
    return written


@settings(max_examples=PROGRAMS // 10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.tuples(numbers, numbers), programs, st.tuples(numbers, numbers), programs)
def test_any_fact_can_be_folded_into_any_state(
    start: tuple[int, int], program: list[Move], other_start: tuple[int, int], other: list[Move]
) -> None:
    """Facts of another life, in an order that never was, are folded without a fault."""
    one, two = lived(start, program), lived(other_start, other, ("close", 0, 0))
    strangers = {type(fact): fact for fact in two.facts}
    for fact in [*strangers.values(), *two.facts[::-1][:20]]:
        session, effects = apply(one.session, fact)
        assert isinstance(session, Session)
        assert isinstance(effects, tuple)
        assert session.epoch >= one.session.epoch
        apply(two.session, fact)
        apply(Session(), fact)
        reproject([fact], one.session)


@settings(max_examples=PROGRAMS // 10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.tuples(numbers, numbers), programs)
def test_a_life_told_at_any_point_is_the_life_so_far(start: tuple[int, int], program: list[Move]) -> None:
    life = Life()
    life.take(opening(*start))
    written = len(life.facts)
    states = [(written, life.session)]
    for move in program:
        life.take(play(life.session, move))
        states.append((len(life.facts), life.session))
    session, at = Session(), 0
    for count, live in states:
        session, at = fold(life.facts[at:count], session), count
        assert session == live


def test_the_programs_reach_every_fact_and_every_frame_the_session_can_make() -> None:
    """A generator that never gets there proves nothing: a fixed set of programs must reach it all."""
    facts: set[str] = set()
    frames: set[str] = set()
    statuses: set[str] = set()
    for seed in range(400):
        dice = random.Random(seed)
        program = [(dice.choice((*USUAL, *OFTEN)), dice.randrange(256), dice.randrange(256)) for _ in range(60)]
        ending = (dice.choice(("close", "model lost", "timer")), dice.randrange(256), dice.choice((0, 16, 32)))
        life = lived((seed, seed // 4), program, ending)
        statuses |= set(life.order.statuses())
        facts |= {type(fact).__name__ for fact in life.facts}
        frames |= {str(frame.__struct_config__.tag) for frame in life.frames}
    asked_behind_an_answer = [("spoke", 1, 1), ("audio", 1, 1), ("heard turn", 1, 1), ("took over", 2, 1)]
    facts |= {type(fact).__name__ for fact in lived((1, 0), asked_behind_an_answer).facts}
    assert statuses >= {"completed", "cancelled", "failed"}
    assert set(FACTS) - facts == set()
    assert {name for name in frames if name.startswith("response.")} >= {
        "response.created",
        "response.output_item.added",
        "response.content_part.added",
        "response.speak",
        "response.output_audio.delta",
        "response.output_audio_transcript.delta",
        "response.output_text.delta",
        "response.output_text.done",
        "response.output_audio.done",
        "response.output_audio_transcript.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.done",
        "response.listen",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
    }


def test_a_signal_is_a_signal_to_the_session() -> None:
    """The programs cover every signal a model has."""
    spoken = {type(play(lived((1, 0), []).session, (name, 1, 1))) for name in USUAL}
    assert set(Signal.__args__) <= spoken  # type: ignore[attr-defined]


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
FIELDS = (
    *("model", "modalities", "output_modalities", "instructions", "voice", "ref_audio", "input_audio_format", "audio"),
    *("output_audio_format", "response_format", "sample_rate_hz", "temperature", "max_output_tokens", "speed", "tools"),
    *("idle_timeout_s", "overlap_policy", "overlap_short_ack_ms", "overlap_silence_rms", "playback_commit_policy"),
    *("turn_detection", "tool_choice", "metadata", "include", "prompt", "tracing", "input_audio_transcription"),
    *("extra_body", "conversation", "id", "type", "role", "content", "call_id", "name", "arguments", "output", "state"),
)
sensible = st.sampled_from(
    [
        *(
            "pcm16",
            "text",
            "none",
            "patient",
            "server_vad",
            "barge_in_on_speech",
            "ack_only",
            "message",
            "user",
            ["text"],
        ),
        *({"type": "server_vad"}, {"type": "server_vad", "threshold": 0.9}, {"auto_response": True}, {"input": {}}),
        *([{"type": "input_text", "text": "hi"}], [{"type": "audio", "audio": "AAAA"}], 16_000, 0.5, "function_call"),
    ]
)
objects = st.dictionaries(st.sampled_from(FIELDS), sensible | json_values, max_size=6)
holders = st.sampled_from(
    [("session.update", "session"), ("response.create", "response"), ("conversation.item.create", "item")]
)


@settings(max_examples=PROGRAMS // 5, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.tuples(numbers, numbers), st.lists(st.tuples(holders, objects), max_size=6))
def test_whatever_stands_in_an_object_is_taken_or_refused(
    start: tuple[int, int], said: list[tuple[tuple[str, str], dict[str, object]]]
) -> None:
    life = Life()
    life.take(opening(*start))
    for (kind, key), holder in said:
        life.take(wire({"type": kind, key: holder, "event_id": "evt_1"}))
        timers(life.session)
        session_object(life.session)
    assert fold(life.facts) == life.session


@settings(max_examples=PROGRAMS // 10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(objects)
def test_whatever_a_client_opens_with_opens_or_refuses(session: dict[str, object]) -> None:
    life = Life()
    start = opening(0, 0)
    life.take(msgspec.structs.replace(start, command=OpenSession(session=session)))
    assert life.session.state in ("open", "closed")
    timers(life.session)
