"""Facts and reports as marks."""

from __future__ import annotations

from typing import Any

import pytest

from duplex_es.log.api import EntryId, Head, SessionRef
from duplex_es.reading.calls import Call
from duplex_es.reading.records import InputLine, OutputLine
from duplex_es.session.events import FACTS
from duplex_es.timeline.document import LANES, Mark
from duplex_es.timeline.marks import SIMPLE, MarkReader

pytestmark = pytest.mark.unit

QUIET = {"SessionOpened", "SocketChanged", "HeartbeatAnswered", "AudioAppended", "AudioProduced", "TextProduced"}
QUIET |= {"TranscriptGrown", "CommitRepeated", "ItemRetrieved", "ItemDeleted", "ResponseStarted", "WorkerChanged"}
QUIET |= {"StagesMeasured"}
TOLD = {"SpeechStarted", "SpeechStopped", "InputCommitted", "InputTranscribed", "TurnBegun", "ResponseSpoken"}
TOLD |= {"ResponseFinished", "PlaybackAcknowledged", "ItemTruncated", "FunctionCalled", "ItemCreated"}


def head(state: str = "claimed") -> Head:
    ref = SessionRef("s", 0)
    ends = (EntryId(2, 9), EntryId(1, 9))
    return Head(ref, "echo", state, 1, True, "g1", 2, "w2", *ends, 1, 0, None, None)


def shown(seq: int, at_ms: int, *facts: dict[str, Any], fence: int = 1, **frame: Any) -> OutputLine:
    return OutputLine(EntryId(fence, seq), at_ms, frame or None, facts, None, None)


def said(index: int, at_ms: int, generation: int = 1, **message: Any) -> InputLine:
    return InputLine(EntryId(generation, index), at_ms, message, None)


def marks_of(*lines: OutputLine | InputLine, call: Call | None = None) -> dict[str, list[Mark]]:
    reader = MarkReader()
    for line in lines:
        if isinstance(line, OutputLine):
            reader.take_output(line)
        else:
            reader.take_input(line)
    return reader.marks(call or Call(head(), start_ms=1_000, length_ms=9_000))


def test_every_fact_is_a_mark_or_is_known_to_be_none() -> None:
    assert set(SIMPLE) | QUIET | TOLD == set(FACTS)
    assert {lane for lane, _, _ in SIMPLE.values()} <= set(LANES)


@pytest.mark.parametrize("name", sorted(SIMPLE))
def test_a_fact_with_nothing_in_it_still_gives_a_mark(name: str) -> None:
    found = marks_of(shown(1, 1_500, {"fact": name, "action": "drop"}))
    lane, kind, _ = SIMPLE[name]
    assert [(one.kind, one.at, one.ref) for one in found[lane][-1:]] == [(kind or "drop", 500, "<1-1")]


def test_a_call_of_a_function_lasts_until_its_output_comes() -> None:
    called = {
        "fact": "FunctionCalled",
        "response_id": "r",
        "item_id": "i",
        "call_id": "c",
        "name": "add",
        "arguments": "{}",
    }
    output = {"type": "function_call_output", "call_id": "c", "output": "3"}
    tool, waiting = marks_of(
        shown(1, 2_000, called),
        shown(2, 2_500, {"fact": "ItemCreated", "item": output}),
        shown(3, 3_000, {**called, "call_id": "d"}),
    )["tools"]
    assert (tool.at, tool.end, tool.text, tool.end_ref) == (1_000, 1_500, "add({}) → 3", "<1-2")
    assert waiting.open and waiting.end is None


def test_a_second_socket_replaces_the_first_and_a_second_worker_takes_over() -> None:
    found = marks_of(
        said(0, 1_000, type="duplex_es.socket_attached", gateway="g1"),
        said(0, 3_000, 2, type="duplex_es.socket_attached", gateway="g2"),
        said(1, 4_000, 2, type="duplex_es.socket_detached", reason="gone"),
        shown(1, 1_100, {"fact": "TurnBegun", "turn": 0}),
        shown(2, 5_000, fence=2, type="session.updated"),
    )
    first, second, detached = found["sockets"]
    assert (first.text, first.end) == ("g1 #1, duplex (replaced)", 2_000)
    assert (second.text, second.end, detached.kind) == ("g2 #2, duplex (gone)", 3_000, "detached")
    assert [(one.kind, one.at, one.open) for one in found["workers"]] == [
        ("claim", 100, False),
        ("takeover", 4_000, True),
    ]
    assert found["model"][0].end == 4_000


def test_the_same_decision_again_and_again_is_one_mark() -> None:
    decided = {"fact": "OverlapDecided", "policy": "barge", "action": "listen", "reason": "short", "overlap_ms": 20}
    lines = [shown(seq, 2_000 + 100 * seq, {**decided, "overlap_ms": 20 * seq}) for seq in range(1, 6)]
    (mark,) = marks_of(*lines, shown(6, 9_000, {**decided, "action": "barge_in"}))["overlap"][:1]
    assert (mark.at, mark.end, mark.count) == (1_100, 1_500, 5)
    assert mark.text == "short (barge, 100 ms over the answer)"


def test_speech_lies_where_its_sound_lies_and_says_what_became_of_it() -> None:
    call = Call(head(), start_ms=1_000, length_ms=9_000, speech=[(200.0, 900.0)])
    found = marks_of(
        shown(1, 1_300, {"fact": "SpeechStarted", "item_id": "i", "start_ms": 200}),
        shown(2, 2_100, {"fact": "SpeechStopped", "item_id": "i", "end_ms": 900}),
        shown(3, 2_100, {"fact": "InputCommitted", "item_id": "i", "by_model": True}),
        shown(4, 2_900, {"fact": "InputTranscribed", "item_id": "i", "transcript": "Hello."}),
        shown(5, 3_300, {"fact": "SpeechStarted", "item_id": "j", "start_ms": 900}),
        call=call,
    )["speech"]
    assert [(one.kind, one.at, one.end, one.text) for one in found] == [
        ("speech", 200, 900, "Hello."),
        ("committed", 1_100, None, "Hello."),
        ("speech", 2_300, 9_000, ""),
    ]
    assert found[2].open


def test_what_is_open_when_the_call_is_over_ends_with_it() -> None:
    call = Call(head("closed"), start_ms=1_000, length_ms=9_000)
    (socket,) = marks_of(said(0, 1_000, type="duplex_es.socket_attached", gateway="g1"), call=call)["sockets"]
    assert (socket.end, socket.open) == (9_000, False)


def test_an_error_frame_is_told_once() -> None:
    error = {"code": "bad", "message": "no"}
    found = marks_of(
        shown(1, 1_000, {"fact": "CommandRejected", **error}, type="error", error=error),
        shown(2, 1_000, type="error", error=error),
    )["errors"]
    assert [(one.kind, one.text) for one in found] == [("rejected", "bad: no"), ("error", "bad: no")]


def test_playback_reports_name_the_answer_they_are_about() -> None:
    reader = MarkReader()
    reader.take_output(shown(1, 1_000, type="response.output_item.added", response_id="r", item={"id": "i"}))
    reader.take_output(shown(2, 2_000, {"fact": "ItemTruncated", "item_id": "i", "audio_end_ms": 700, "ledger": {}}))
    (report,) = reader.reports(Call(head(), start_ms=1_000))
    assert (report.at, report.response, report.played_ms, report.truncate) == (1_000, "r", 700, True)


def test_a_record_without_a_time_stands_at_the_beginning() -> None:
    (socket,) = marks_of(said(0, 0, type="duplex_es.socket_attached", gateway="g1"))["sockets"]
    assert socket.at == 0
