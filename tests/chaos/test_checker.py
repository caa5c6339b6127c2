"""The checker finds each broken promise that is planted for it: a table full of "held" would mean nothing otherwise."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest

from duplex_es.log.api import Entry, EntryId, SessionRef
from duplex_es.protocol import derive_event_id, encode_frame
from duplex_es.protocol.frames import SessionClosed
from duplex_es.protocol.records import SocketAttached, pack_input, pack_output
from tests.chaos.rounds import Tally
from tests.chaos.rows import ROWS, chosen
from tests.chaos.run import arguments, table
from tests.support.chaos_check import (
    Verdict,
    check_input,
    check_line,
    check_words,
    compare_bodies,
    count_seqs,
    longest_silence,
)
from tests.support.chaos_talker import Heard, Line, Talker, code_of

pytestmark = pytest.mark.unit

REF = SessionRef("s", 0)


def heard(seq: int, at_s: float = 0.0, **fields: object) -> Heard:
    wire = {"type": "response.speak", "server_event_seq": seq, **fields}
    return Heard(at_s, json.dumps(wire), wire)


def closed(seq: int, reason: str = "client_closed", generation: int = 1) -> Entry:
    """A record of the output."""
    body, _ = pack_output(0, frame=SessionClosed(session_id="s", reason=reason))
    return Entry(EntryId(generation, seq), body)


def shown(seq: int, reason: str = "client_closed") -> Heard:
    """The frame of ``closed``, as a gateway sends it."""
    text = encode_frame(SessionClosed(session_id="s", reason=reason), event_id=derive_event_id("s", 0, seq), seq=seq)
    return Heard(0.0, text, json.loads(text))


@pytest.mark.parametrize(
    ("seqs", "lost", "repeated", "faults"),
    [
        ([1, 2, 3], 0, 0, 0),
        ([], 0, 0, 0),
        ([1, 3], 1, 0, 1),
        ([2, 3], 1, 0, 1),
        ([1, 2, 2, 3], 0, 1, 1),
        ([1, 3, 2], 0, 0, 1),
    ],
)
def test_seqs_are_counted(seqs: list[int], lost: int, repeated: int, faults: int) -> None:
    verdict = Verdict("s")
    count_seqs(verdict, seqs)
    assert (verdict.lost, verdict.repeated, len(verdict.faults)) == (lost, repeated, faults)


def test_a_socket_must_begin_after_its_cursor_and_leave_nothing_out() -> None:
    for seqs, faults in (([5, 6], 0), ([4, 5], 1), ([6], 1), ([5, 7], 1)):
        verdict = Verdict("s")
        check_line(verdict, 0, Line("ws://a", 4, [heard(seq) for seq in seqs]))
        assert len(verdict.faults) == faults, seqs


def test_what_an_abandoned_socket_still_hears_is_checked_but_not_taken() -> None:
    line = Line("ws://a", 0, [heard(1), heard(2), heard(4)], left=2)
    assert [frame.seq for frame in line.taken] == [1, 2]
    verdict = Verdict("s")
    check_line(verdict, 0, line)
    assert verdict.faults


def test_every_frame_must_be_the_logs() -> None:
    verdict = Verdict("s")
    compare_bodies(verdict, REF, [closed(1)], [shown(1)])
    assert verdict.faults == []
    compare_bodies(verdict, REF, [closed(1)], [shown(1, reason="another body")])
    assert "two bodies" in verdict.faults[0]


def test_a_frame_that_is_not_in_the_log_is_a_fault_unless_the_client_was_told() -> None:
    verdict = Verdict("s")
    compare_bodies(verdict, REF, [closed(1)], [shown(1), shown(2)])
    assert verdict.faults == ["seq 2 was shown and is not in the log"]
    for words in ("session.resync_required:", "session.expired:session_gone"):
        told = Verdict("s", told=words)
        compare_bodies(told, REF, [closed(1)], [shown(1), shown(2)])
        assert told.faults == []
    expired = Verdict("s", told="session.expired:session_gone")
    compare_bodies(expired, REF, [closed(1)], [shown(1, reason="another body")])
    assert expired.faults


@pytest.mark.parametrize(
    ("ids", "faults"),
    [
        ([(1, 0), (1, 1), (2, 0), (2, 1)], 0),
        ([(1, 0), (1, 2)], 1),
        ([(1, 0), (2, 0), (1, 1)], 1),
        ([(1, 0), (2, 1)], 1),
    ],
)
def test_the_input_has_one_writer_at_a_time_and_no_hole(ids: list[tuple[int, int]], faults: int) -> None:
    entries = [
        Entry(EntryId(*pair), pack_input(SocketAttached(generation=pair[0], gateway="g"), 0).body) for pair in ids
    ]
    verdict = Verdict("s")
    check_input(verdict, entries)
    assert len(verdict.faults) == faults


def test_an_attachment_record_must_be_its_generations() -> None:
    verdict = Verdict("s")
    check_input(verdict, [Entry(EntryId(1, 0), pack_input(SocketAttached(generation=2, gateway="g"), 0).body)])
    assert verdict.faults


def test_an_answer_must_have_been_asked_for() -> None:
    talker = Talker(0, ["ws://a"], random.Random(1))
    talker.asked = ["amber birch cedar"]
    for words, faults in (("amber birch cedar", 0), ("amber birch", 0), ("birch", 1)):
        verdict = Verdict("s")
        wire = {"type": "response.output_audio_transcript.done", "transcript": words}
        check_words(verdict, talker, [wire])
        assert len(verdict.faults) == faults, words


def test_the_silence_that_counts_ended_after_the_fault() -> None:
    frames = [heard(1, 0.0), heard(2, 9.0), heard(3, 9.5), heard(4, 12.0)]
    assert longest_silence(frames, fault_at_s=9.2) == 2.5
    assert longest_silence(frames, fault_at_s=1.0) == 9.0
    assert longest_silence([], 0.0) == 0.0


def test_a_code_is_read_from_both_shapes_of_an_error() -> None:
    assert code_of({"type": "error", "error": {"code": "a"}}) == "a"
    assert code_of({"type": "error", "error": "words", "code": "b"}) == "b"
    assert code_of({"type": "session.expired"}) == "session.expired"


def test_a_round_with_faults_names_its_seed_and_a_known_fault_stays_visible() -> None:
    tally = Tally(replace(ROWS["gateway-killed"], known="it leaks", excused="is open after"))
    tally.add("7.0", [Verdict("s", frames=3)], {0}, ["s is open after 45 s"])
    assert (tally.faults, list(tally.known)) == ({}, ["7.0"])
    assert "KNOWN FAULT in 1" in table([tally])
    tally.add("7.1", [Verdict("s", faults=["2 frames lost, 0 repeated"], lost=2)], {0}, [])
    assert list(tally.faults) == ["7.1"]
    assert "BROKEN in 1" in table([tally])


def test_too_long_a_silence_of_a_caller_that_was_hit_is_a_fault() -> None:
    tally = Tally(ROWS["worker-killed"])
    tally.add("1", [Verdict("a", silence_s=60.0), Verdict("b", silence_s=60.0)], {1}, [])
    assert tally.faults == {"1": ["caller 1 heard nothing for 60.0 s"]}
    assert tally.worst_s == 60.0


def test_rows_are_chosen_by_name_and_the_short_form_leaves_out_the_slow_ones() -> None:
    assert [row.name for row in chosen(["worker-killed"])] == ["worker-killed"]
    quick = chosen(quick=True)
    assert 0 < len(quick) < len(ROWS)
    assert all(row.quick for row in quick)
    assert all(row.promise for row in ROWS.values())
    with pytest.raises(SystemExit):
        arguments(["--row", "nothing-of-the-kind"])
