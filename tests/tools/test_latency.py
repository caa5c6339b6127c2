"""Whose the time was."""

from __future__ import annotations

from typing import Any

import pytest

from duplex_es.client.events import view
from duplex_es.log.api import EntryId
from duplex_es.tools.conversation import Conversation, Heard
from duplex_es.tools.latency import Latency, measure
from duplex_es.tools.records import InputLine, Line, OutputLine

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
    fields = ("heard_ms", "endpoint_ms", "answer_ms", "model_ms", "service_ms")
    values = [getattr(latency, name) for name in fields]
    return [None if value is None else round(value) for value in values]


def test_without_the_log_only_what_the_caller_heard_is_known() -> None:
    assert rounded(measure(conversation())) == [900, 500, 400, None, None]


def test_with_the_log_the_models_part_and_the_services_own_are_apart() -> None:
    # Decision to production 395 ms in the log; 8 ms up for the last word, 10 ms down for the first sound.
    assert rounded(measure(conversation(), log())) == [900, 500, 400, 395, 18]


def test_a_log_without_appends_leaves_the_way_up_out() -> None:
    assert rounded(measure(conversation(), log()[-2:])) == [900, 500, 400, 395, 10]


def test_a_log_of_another_session_says_nothing() -> None:
    assert rounded(measure(conversation(), log()[:5])) == [900, 500, 400, None, None]


def test_without_an_answer_nothing_is_known_and_the_table_says_so() -> None:
    assert measure(Conversation(), log()) == Latency()
    assert {value for _, value in Latency().rows()} == {"not known"}
