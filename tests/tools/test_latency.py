"""Whose the time was."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from duplex_es.client.events import view
from duplex_es.log.api import EntryId
from duplex_es.reading.records import InputLine, Line, OutputLine
from duplex_es.tools.conversation import Conversation, Heard
from duplex_es.tools.latency import Latency, measure

pytestmark = pytest.mark.unit


def conversation() -> Conversation:
    """The caller speaks from 100.0 to 102.0 s; the turn ends at 102.5, the first sound comes at 102.9."""
    subject = Conversation(stream_start_s=100.0, speech_end_s=102.0)
    events: list[tuple[float, dict[str, Any]]] = [
        (101.0, {"type": "input_audio_buffer.speech_stopped", "server_event_seq": 2}),
        (102.5, {"type": "input_audio_buffer.speech_stopped", "server_event_seq": 4}),
        (102.6, {"type": "response.created", "response_id": "r", "server_event_seq": 5}),
        (102.9, {"type": "response.output_audio.delta", "response_id": "r", "delta": "AAAA", "server_event_seq": 6}),
        (103.0, {"type": "response.done", "response_id": "r", "response": {"status": "completed"}}),
    ]
    for at_s, raw in events:
        subject.take(Heard(at_s, view(raw)))
    return subject


def log(*, append_delay_ms: int = 8) -> list[Line]:
    appends: list[Line] = [
        InputLine(
            EntryId(1, n),
            100_000 + n * 40 + append_delay_ms,
            {"type": "input_audio_buffer.append", "audio_end_ms": n * 40},
            0,
        )
        for n in range(1, 70)
    ]
    decided = OutputLine(EntryId(1, 4), 102_495, {"type": "x"}, (), None, None)
    produced = OutputLine(EntryId(1, 6), 102_890, {"type": "x"}, (), None, 3)
    return [*appends, decided, produced]


def rounded(latency: Latency) -> list[int | None]:
    values = [getattr(latency, field.name) for field in fields(latency)]
    return [None if value is None else round(value) for value in values]


def test_without_the_log_only_what_the_caller_heard_is_known() -> None:
    assert rounded(measure(conversation())) == [900, 500, 400, None, None, None]


def test_with_the_log_the_models_part_and_the_services_own_are_apart() -> None:
    # Decided 495 ms after the last word, produced 395 ms later; 8 ms up for that word, 10 ms down for the first sound.
    assert rounded(measure(conversation(), log())) == [900, 495, 405, 8, 395, 10]


def test_the_parts_make_up_the_whole() -> None:
    latency = measure(conversation(), log())
    assert (latency.endpoint_ms or 0) + (latency.answer_ms or 0) == pytest.approx(latency.heard_ms)
    assert (latency.model_ms or 0) + (latency.down_ms or 0) == pytest.approx(latency.answer_ms)


def test_a_log_without_appends_leaves_the_way_up_out() -> None:
    assert rounded(measure(conversation(), log()[-2:])) == [900, 495, 405, None, 395, 10]


def test_a_log_of_another_session_says_nothing() -> None:
    assert rounded(measure(conversation(), log()[:5])) == [900, 500, 400, None, None, None]


def test_without_an_answer_nothing_is_known_and_the_table_is_empty() -> None:
    assert measure(Conversation(), log()) == Latency()
    assert Latency().rows() == []


def test_the_table_leaves_out_what_is_not_known() -> None:
    assert [name for name, _ in Latency(heard_ms=900.4).rows()] == ["caller's last word -> first sound, all in all"]
    assert len(measure(conversation(), log()).rows()) == 6
