"""A log in readable lines."""

from __future__ import annotations

from typing import Any

import pytest

from duplex_es.log.api import EntryId
from duplex_es.reading.records import InputLine, OutputLine
from duplex_es.tools.render import render

pytestmark = pytest.mark.unit


def said(number: int, at_ms: int, audio_bytes: int | None = None, **fields: Any) -> InputLine:
    return InputLine(EntryId(1, number), at_ms, fields, audio_bytes)


def shown(seq: int, at_ms: int, *facts: str, audio_bytes: int | None = None, **frame: Any) -> OutputLine:
    return OutputLine(EntryId(2, seq), at_ms, frame or None, tuple({"fact": fact} for fact in facts), None, audio_bytes)


def append(number: int, at_ms: int) -> InputLine:
    return said(number, at_ms, 3_200, type="input_audio_buffer.append", sample_rate_hz=16_000)


def test_a_line_has_time_direction_id_type_detail_and_facts() -> None:
    lines = [
        said(0, 1_000, type="duplex_es.open_session"),
        shown(1, 1_250, "InputTranscribed", type="x.completed", transcript="Hello there."),
    ]
    assert list(render(lines)) == [
        "   0.000 > 1-0          duplex_es.open_session",
        '   0.250 < 2-1          x.completed  "Hello there."  [InputTranscribed]',
    ]


def test_a_run_of_appends_is_one_line_with_all_its_sound() -> None:
    lines = [append(n, n * 100) for n in range(1, 6)]
    assert list(render(lines)) == ["   0.000 > 1-1..5       5 x input_audio_buffer.append  0.50 s"]
    assert len(list(render(lines, folds=False))) == 5


def test_a_record_that_says_something_ends_a_run() -> None:
    lines = [append(1, 0), append(2, 100), shown(1, 100, type="y"), append(3, 200)]
    assert [line.split()[2] for line in render(lines)] == ["1-1..2", "2-1", "1-3"]


def test_the_pieces_of_an_answer_and_what_the_caller_sends_meanwhile_are_one_line_each() -> None:
    lines: list[InputLine | OutputLine] = []
    for n, word in enumerate(("Hello ", "", "there."), 1):
        delta = {"response_id": "r", "delta": ""}
        facts = ("AudioAppended", "AudioProduced")
        lines += [
            shown(
                2 * n,
                n * 160,
                *facts,
                audio_bytes=7_680,
                type="response.output_audio.delta",
                sample_rate_hz=24_000,
                **delta,
            ),
            shown(2 * n + 1, n * 160, type="response.output_audio_transcript.delta", response_id="r", delta=word),
            append(n, n * 160 + 5),
        ]
    lines.append(shown(8, 900, "ResponseFinished", type="response.done", response={"status": "completed"}))
    assert list(render(lines)) == [
        "   0.000 < 2-2..7       6 x response.output_audio.delta and its words  0.48 s"
        '  "Hello there."  [3 x AudioAppended, 3 x AudioProduced]',
        "   0.005 > 1-1..3       3 x input_audio_buffer.append  0.30 s",
        "   0.740 < 2-8          response.done  status=completed  [ResponseFinished]",
    ]


def test_a_piece_of_an_answer_with_a_fact_that_matters_stands_alone() -> None:
    delta = {"type": "response.output_audio.delta", "response_id": "r"}
    lines = [shown(1, 0, **delta), shown(2, 10, "ResponseCancelled", **delta), shown(3, 20, **delta)]
    assert len(list(render(lines))) == 3


def test_a_long_id_is_shortened_so_that_it_can_still_be_told_from_others() -> None:
    [line] = render([shown(1, 0, type="x", item_id="item_52870ebac89ba682e6c0b8cb1596f051")])
    assert line.endswith("item_id=item_52870eba..")


def test_appends_of_another_socket_are_another_run() -> None:
    other = InputLine(EntryId(2, 1), 200, {"type": "input_audio_buffer.append"}, 3_200)
    assert len(list(render([append(1, 0), other]))) == 2


def test_the_telling_field_is_found_inside_an_error() -> None:
    [line] = render([shown(1, 0, type="error", error={"code": "bad_event", "message": "no"})])
    assert line.endswith("error  code=bad_event")


def test_a_long_text_is_cut() -> None:
    [line] = render([shown(1, 0, type="x", text="word " * 100)])
    assert len(line) < 120
    assert line.endswith('..."')


def test_sound_of_a_known_rate_is_in_seconds_and_other_sound_in_bytes() -> None:
    known = shown(1, 0, audio_bytes=48_000, type="d", sample_rate_hz=24_000, format="pcm16")
    unknown = shown(2, 0, audio_bytes=800, type="d", format="g711_ulaw", sample_rate_hz=8_000)
    first, second = render([known, unknown])
    assert "1.00 s" in first
    assert "800 bytes" in second


def test_facts_without_a_frame_and_records_without_either_are_shown_too() -> None:
    first, second = render([shown(1, 0, "AudioAppended"), shown(2, 0)])
    assert first.endswith("(no frame)  [AudioAppended]")
    assert second.endswith("(a record this build cannot read)")


def test_an_empty_log_has_no_lines() -> None:
    assert list(render([])) == []
