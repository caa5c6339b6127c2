"""A log in readable lines."""

from __future__ import annotations

from typing import Any

import pytest

from duplex_es.log.api import EntryId
from duplex_es.tools.records import InputLine, OutputLine
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
    assert list(render(lines)) == ["   0.000 > 1-1..5       5 x input_audio_buffer.append, 0.50 s of audio"]
    assert len(list(render(lines, folds=False))) == 5


def test_what_comes_between_ends_a_run() -> None:
    lines = [append(1, 0), append(2, 100), shown(1, 100, type="y"), append(3, 200)]
    assert [line.split()[2] for line in render(lines)] == ["1-1..2", "2-1", "1-3"]


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
