"""One socket's ear: responses come one at a time to those who know no other way."""

from __future__ import annotations

import json
from typing import Any

import pytest

from duplex_es import model
from duplex_es.protocol import AppendAudio, CommitInput, Frame, ResponseObject, frames, wire_name
from duplex_es.protocol.dialects import DIALECTS, DUPLEX, GA, NATIVE, STOCK, Listener, opening_settings, render
from duplex_es.protocol.dialects.listener import OneAtATime
from duplex_es.session.inputs import AudioArrived
from tests.protocol.dialects import samples

pytestmark = pytest.mark.unit


def call_inside_an_answer() -> list[Frame]:
    """A session whose model calls two functions while it speaks, and one after it."""
    call = samples.Call(opening_settings(GA))
    call.take(AudioArrived(command=AppendAudio(audio=b"\x00\x20" * 4800), rms=0.2), CommitInput())
    call.heard.clear()
    call.take(
        model.ModelSpoke(epoch=0, turn=1),
        model.ModelProducedAudio(epoch=0, turn=1, pcm=b"\x00\x10" * 4800, text="Let me check."),
        model.ModelCalledFunction(epoch=0, turn=1, call_id="call_1", name="get_weather", arguments="{}"),
        model.ModelProducedAudio(epoch=0, turn=1, pcm=b"\x00\x10" * 4800, text=" One moment."),
        model.ModelCalledFunction(epoch=0, turn=1, call_id="call_2", name="get_time", arguments="{}"),
        model.ModelFinished(epoch=0, turn=1),
        model.ModelCalledFunction(epoch=0, turn=2, call_id="call_3", name="get_rain", arguments="{}"),
    )
    return call.heard


def heard(stream: list[Frame], dialect: str) -> list[dict[str, Any]]:
    """What a socket of ``dialect`` hears of ``stream``."""
    listener = Listener(dialect)
    return [
        json.loads(text)
        for number, frame in enumerate(stream)
        for text in listener.hear(frame, event_id=f"event_{number}", seq=number)
    ]


@pytest.mark.parametrize("dialect", sorted(STOCK))
def test_responses_never_overlap(dialect: str) -> None:
    open_id, order = None, []
    for event in heard(call_inside_an_answer(), dialect):
        if event["type"] == "response.created":
            assert open_id is None
            open_id = event["response"]["id"]
        elif event["type"] == "response.done":
            assert event["response"]["id"] == open_id
            open_id = None
            order.append(event["response"])
        elif "response_id" in event:
            assert event["response_id"] == open_id, event["type"]
    assert [[item["type"] for item in response["output"]] for response in order] == [
        ["message", "function_call", "function_call"],
        ["function_call"],
    ]


def test_a_call_in_an_answer_is_one_more_output_of_it() -> None:
    events = heard(call_inside_an_answer(), GA)
    calls = [event for event in events if event["type"] == "response.function_call_arguments.done"]
    assert [(event["call_id"], event["output_index"]) for event in calls] == [
        ("call_1", 1),
        ("call_2", 2),
        ("call_3", 0),
    ]
    done = [event for event in events if event["type"] == "response.output_item.done"]
    assert [(event["item"]["type"], event["output_index"]) for event in done] == [
        ("function_call", 1),
        ("function_call", 2),
        ("message", 0),
        ("function_call", 0),
    ]


def test_limits_follow_the_end_of_a_response_only() -> None:
    names = [event["type"] for event in heard(call_inside_an_answer(), GA)]
    assert names.count("response.done") == names.count("rate_limits.updated") == 2
    assert [names[at + 1] for at, name in enumerate(names) if name == "response.done"] == ["rate_limits.updated"] * 2


@pytest.mark.parametrize("dialect", [DUPLEX, NATIVE])
def test_a_seed_client_hears_calls_as_responses_of_their_own(dialect: str) -> None:
    stream = call_inside_an_answer()
    plain = [json.loads(t) for n, f in enumerate(stream) for t in render(f, dialect, event_id=f"event_{n}", seq=n)]
    assert heard(stream, dialect) == plain


@pytest.mark.parametrize("dialect", DIALECTS)
def test_all_else_is_what_the_frame_alone_says(dialect: str) -> None:
    for frame in samples.EVERY:
        assert Listener(dialect).hear(frame, event_id="e", seq=1) == render(frame, dialect, event_id="e", seq=1)


def test_one_that_comes_in_the_middle_of_an_answer_hears_the_call_by_itself() -> None:
    stream = call_inside_an_answer()
    late = [frame for frame in stream[stream.index(next(f for f in stream if _is_call(f))) :]]
    responses = [event["response"]["id"] for event in heard(late, GA) if event["type"] == "response.done"]
    assert len(responses) == len(set(responses))
    assert len(responses) >= 3


def _is_call(frame: Frame) -> bool:
    return wire_name(frame) == "response.created" and "function_call" in str(frame)


def test_an_answer_told_twice_is_not_inside_itself() -> None:
    answers = OneAtATime()
    begun = samples.created()
    assert answers.take(begun) is begun
    assert answers.take(begun) is begun


def test_a_response_is_known_by_either_of_its_ids() -> None:
    answers = OneAtATime()
    answers.take(frames.ResponseCreated(response_id="outer", response=ResponseObject()))
    assert answers.take(frames.ResponseCreated(response_id="inner", response=ResponseObject())) is None
    assert answers.take(frames.ResponseDone(response_id="inner", response=ResponseObject())) is None
    done = frames.ResponseDone(response_id="outer", response=ResponseObject())
    assert answers.take(done) is done


@pytest.mark.parametrize(
    ("dialect", "detection", "is_told"),
    [
        (GA, None, False),
        (GA, {"type": "server_vad"}, True),
        (DUPLEX, None, True),
    ],
)
def test_a_client_that_makes_the_turns_itself_hears_of_no_speech(
    dialect: str, detection: dict[str, object] | None, is_told: bool
) -> None:
    session: dict[str, object] = {"id": "s1", "turn_detection": detection, "extra_body": {"auto_response": False}}
    stream: list[Frame] = [
        frames.SessionUpdated(session=session),
        frames.InputAudioBufferSpeechStarted(audio_start_ms=0, item_id="item_1"),
        frames.InputAudioBufferSpeechStopped(audio_end_ms=400, item_id="item_1"),
    ]

    kinds = [event["type"] for event in heard(stream, dialect)][1:]
    assert bool(kinds) == is_told
