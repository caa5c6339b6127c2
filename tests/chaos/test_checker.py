"""The checker finds each broken promise that is planted for it: a table full of "held" would mean nothing otherwise."""

from __future__ import annotations

import base64
import itertools
import json
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from duplex_es.log.api import Entry, EntryId, SessionRef
from duplex_es.protocol import derive_event_id, encode_frame
from duplex_es.protocol.frames import SessionClosed
from duplex_es.protocol.records import SocketAttached, pack_input, pack_output
from tests.chaos import table as rows_table
from tests.chaos.catalogue import ROWS, chosen, deck
from tests.chaos.results import Result, append, read, slow_rows, table, weigh
from tests.chaos.run import arguments, rounds_of
from tests.support.chaos_check import (
    Verdict,
    check_input,
    check_line,
    check_words,
    compare_bodies,
    count_seqs,
    longest_silence,
)
from tests.support.chaos_sound import check_sound, echoed
from tests.support.chaos_speaker import check_spoken
from tests.support.chaos_talker import Heard, Line, Talker, code_of, retry_after_of

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
    for words in ("session.resync_required:", "session_resume_conflict", "session.expired:session_gone"):
        told = Verdict("s", told=words)
        compare_bodies(told, REF, [closed(1)], [shown(1), shown(2)])
        assert told.faults == []
    expired = Verdict("s", told="session.expired:session_gone")
    compare_bodies(expired, REF, [closed(1)], [shown(1, reason="another body")])
    assert expired.faults


def test_what_a_client_was_promised_to_survive_must_be_there_even_when_it_was_told() -> None:
    for words in ("session.resync_required:", "session.expired:session_gone"):
        told = Verdict("s", told=words)
        compare_bodies(told, REF, [closed(1)], [shown(1), shown(2), shown(3)], durable_seq=2)
        assert told.faults == ["seq 2 was shown and is not in the log"]
    told = Verdict("s", told="session.resync_required:")
    compare_bodies(told, REF, [closed(1)], [shown(1, reason="another body")], durable_seq=1)
    assert "two bodies" in told.faults[0]


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


def answered(text: str, status: str = "completed", response_id: str = "r1") -> list[dict]:
    """What a client hears of an answer's words."""
    return [
        {"type": "response.output_audio_transcript.done", "response_id": response_id, "transcript": text},
        {"type": "response.done", "response": {"id": response_id, "status": status}},
    ]


@pytest.mark.parametrize(
    ("words", "status", "faults"),
    [
        ("amber birch cedar", "completed", 0),
        ("amber birch", "failed", 0),
        ("", "failed", 0),
        ("amber birch", "completed", 1),
        ("birch", "failed", 1),
    ],
)
def test_an_answer_must_have_been_asked_for_and_be_whole_if_it_completed(words: str, status: str, faults: int) -> None:
    talker = Talker(0, ["ws://a"], random.Random(1))
    talker.asked = ["amber birch cedar"]
    verdict = Verdict("s")
    check_words(verdict, talker, answered(words, status))
    assert len(verdict.faults) == faults


@pytest.mark.parametrize(
    ("heard_words", "faults"),
    [
        (["amber", "birch"], 0),
        (["amber"], 1),
        (["amber", "amber", "birch"], 1),
        (["birch", "amber"], 1),
    ],
)
def test_every_question_gets_one_answer_in_order(heard_words: list[str], faults: int) -> None:
    talker = Talker(0, ["ws://a"], random.Random(1))
    talker.asked = ["amber", "birch"]
    wires = [wire for n, words in enumerate(heard_words) for wire in answered(words, response_id=f"r{n}")]
    verdict = Verdict("s")
    check_words(verdict, talker, wires)
    assert len(verdict.faults) == faults
    doubtful = Verdict("s")
    talker.asked_again = 1
    check_words(doubtful, talker, wires)
    assert doubtful.faults == []


def sounding(pcm: bytes, *, status: str = "completed", pieces: int = 3) -> list[dict]:
    """What a client hears of an answer's sound."""
    size = -(-len(pcm) // pieces) or 1
    deltas = [
        {"type": "response.output_audio.delta", "response_id": "r1", "delta": base64.b64encode(pcm[at : at + size])}
        for at in range(0, len(pcm), size)
    ]
    return [*deltas, *answered("amber birch", status)]


def test_a_completed_answer_must_sound_whole_sample_for_sample() -> None:
    whole = echoed("amber birch")
    middle = len(whole) // 2
    assert check_sound(sounding(whole), echoed) == []
    assert check_sound(sounding(whole, pieces=7), echoed) == []
    for broken in (
        whole[:-2],
        whole[:middle] + whole[middle + 2 :],
        whole[:middle] + b"\x01\x02" + whole[middle:],
        whole[:middle] + whole[middle - 320 :],
        whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :],
        b"",
    ):
        assert len(check_sound(sounding(broken), echoed)) == 1


def test_an_answer_that_did_not_complete_must_sound_as_its_beginning() -> None:
    whole = echoed("amber birch")
    assert check_sound(sounding(whole[:4_000], status="failed"), echoed) == []
    assert check_sound(sounding(whole[2:4_000], status="failed"), echoed) != []


def repeated(pcm: bytes, status: str = "completed") -> list[dict]:
    """What a client hears of a sentence that came back, with the silence around it."""
    return sounding(bytes(960) + pcm + bytes(4_800), status=status)


def test_a_spoken_sentence_must_come_back_whole() -> None:
    sentence = random.Random(1).randbytes(9_600)
    middle = len(sentence) // 2
    assert check_spoken(repeated(sentence), [sentence]) == []
    for broken in (
        sentence[:-4],
        sentence[:middle],
        sentence[:middle] + sentence[middle + 2 :],
        sentence[:middle] + bytes(320) + sentence[middle:],
        sentence[:middle] + sentence[middle - 960 :],
    ):
        assert len(check_spoken(repeated(broken), [sentence])) == 1
    assert len(check_spoken(repeated(sentence, "failed"), [sentence])) == 1
    assert check_spoken([], [sentence]) == ["0 answers to 1 sentences"]
    assert check_spoken(repeated(sentence) + repeated(sentence), [sentence]) == ["2 answers to 1 sentences"]


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
    row = replace(ROWS["gateway-killed"], known="it leaks", excused="is open after")
    known = weigh(row, "7.0", [Verdict("s", frames=3)], {0}, ["s is open after 45 s"])
    assert (known.faults, known.known) == ([], ["s is open after 45 s"])
    assert "KNOWN FAULT in 1 (it leaks)" in table([known], {row.name: row})
    broken = weigh(row, "7.1", [Verdict("s", faults=["2 frames lost, 0 repeated"], lost=2)], {0}, [])
    assert (broken.seed, broken.lost, len(broken.faults)) == ("7.1", 2, 1)
    assert "BROKEN in 1" in table([known, broken], {row.name: row})


def test_too_long_a_silence_of_a_caller_that_was_hit_is_a_fault() -> None:
    result = weigh(ROWS["worker-killed"], "1", [Verdict("a", silence_s=60.0), Verdict("b", silence_s=60.0)], {1}, [])
    assert result.faults == ["caller 1 heard nothing for 60.0 s"]
    assert result.silences_s == [60.0]


def test_a_row_that_is_slow_again_and_again_misses_its_target() -> None:
    slow = [weigh(ROWS["worker-killed"], f"1.{n}", [Verdict("a", silence_s=2.5)], {0}, []) for n in range(5)]
    assert slow_rows(slow[:4], ROWS) == []
    assert len(slow_rows(slow, ROWS)) == 1
    assert slow_rows([replace(one, silences_s=[1.0]) for one in slow], ROWS) == []


def test_rounds_are_kept_as_they_come_and_make_one_table(tmp_path: Path) -> None:
    kept = tmp_path / "deep" / "rounds.jsonl"
    assert read(kept) == []
    first = Result("worker-killed", "1.0", frames=7, silences_s=[1.0], measured={"grew MB": 3.0})
    second = Result("worker-killed", "1.1", frames=5, silences_s=[2.0], measured={"grew MB": 5.0})
    other = Result("a-row-that-is-no-more", "1.2", faults=["lost"])
    for result in (first, second, other):
        append(kept, result)
    assert read(kept) == [first, second, other]
    printed = table(read(kept), ROWS)
    assert "| worker-killed | 2 | 0 | 12 | 0 | 0 | 0 | 0 | 1.50 | 2.00 | held; grew MB 4, worst 5 |" in printed
    assert "| a-row-that-is-no-more | 1 |" in printed
    assert printed.splitlines()[-1].startswith("| all | 3 |")


def test_rows_are_chosen_by_name_and_the_short_form_leaves_out_the_slow_ones() -> None:
    assert [row.name for row in chosen(["worker-killed"])] == ["worker-killed"]
    quick = chosen(quick=True)
    assert 0 < len(quick) < len(ROWS)
    assert all(row.quick for row in quick)
    assert all(row.promise for row in ROWS.values())
    assert {row.scene.store for row in quick} == {"single", "sentinel", "cluster"}
    with pytest.raises(SystemExit):
        arguments(["--row", "nothing-of-the-kind"])


def test_every_row_that_is_written_is_in_the_catalogue_once() -> None:
    assert set(ROWS) == set(rows_table.ROWS)
    with pytest.raises(ValueError, match="two rows"):
        rows_table.row("worker-killed", "again")(ROWS["worker-killed"].fault)


def test_the_reported_faults_that_need_real_processes_have_rows() -> None:
    named = {word.strip("(),") for row in ROWS.values() for word in row.promise.split() if word.strip("(),")[:1] == "E"}
    assert {f"E{n}" for n in (2, 3, 13, 14, 15, 16, 17, 18, 21, 22, 23, 26, 30, 32, 38, 41)} <= named


def test_the_random_order_is_the_seeds_and_meets_every_row_by_its_rarity() -> None:
    rows = chosen()
    names = [row.name for row in itertools.islice(deck(rows, "1"), 2_000)]
    assert names == [row.name for row in itertools.islice(deck(reversed(rows), "1"), 2_000)]
    assert names != [row.name for row in itertools.islice(deck(rows, "2"), 2_000)]
    counts = Counter(names)
    often = max(counts.values())
    assert set(counts) == set(ROWS)
    assert all(abs(counts[row.name] - often / row.rarity) <= 2 for row in rows)


def test_a_round_can_be_asked_for_by_the_seed_that_the_long_form_printed() -> None:
    long_form = list(rounds_of(arguments(["--rounds-total", "9", "--seed", "7", "--but", "storm"])))
    row, seed = long_form[8]
    assert seed == "7.8"
    assert list(rounds_of(arguments(["--rounds", "1", "--seed", seed, "--row", row.name]))) == [(row, seed)]


def test_when_to_try_again_is_read_from_both_shapes_of_an_error() -> None:
    assert retry_after_of({"type": "error", "error": {"code": "a", "retry_after_ms": 1500}}) == 1.5
    assert retry_after_of({"type": "error", "error": "words", "code": "a", "retry_after_ms": 250}) == 0.25
    assert retry_after_of({"type": "error", "error": {"code": "a"}}) is None
