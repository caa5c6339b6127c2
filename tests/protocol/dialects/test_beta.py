"""The beta rows: the old names, each item once, sessions flat."""

from __future__ import annotations

import pytest

from duplex_es.protocol import EXTENSIONS, FRAMES, Frame, wire_name
from duplex_es.protocol.dialects import BETA, GA, project
from duplex_es.protocol.dialects.beta import RENAMED, ROWS
from tests.protocol.dialects import samples

pytestmark = pytest.mark.unit

ONLY_GA = {"conversation.item.added", "conversation.item.done", "output_audio_buffer.cleared"}


def test_every_frame_has_a_row() -> None:
    assert set(ROWS) == {*FRAMES.values(), *EXTENSIONS.values()}


@pytest.mark.parametrize("frame", samples.EVERY, ids=wire_name)
def test_a_frame_is_heard_as_in_ga_under_its_old_name(frame: Frame) -> None:
    name = wire_name(frame)
    heard = [str(event["type"]) for event in project(frame, BETA)]
    if name in ONLY_GA:
        assert heard == []
    elif name == "conversation.item.created":
        assert heard == [name]
    else:
        assert heard == [RENAMED.get(str(event["type"]), event["type"]) for event in project(frame, GA)]


def test_no_name_of_today_is_left() -> None:
    heard = {event["type"] for frame in samples.EVERY for event in project(frame, BETA)}
    assert not heard & set(RENAMED)
    assert set(RENAMED.values()) <= heard


def test_deltas_are_those_of_ga_but_for_the_name() -> None:
    (beta,), (ga,) = project(samples.delta(), BETA), project(samples.delta(), GA)
    assert {**beta, "type": ga["type"]} == ga


@pytest.mark.parametrize("name", ["conversation.item.created", "response.output_item.done", "response.done"])
def test_parts_of_an_answer_have_their_old_names(name: str) -> None:
    (frame,) = (frame for frame in samples.EVERY if wire_name(frame) == name)
    assert "output_audio" not in str(project(frame, BETA))


def test_a_session_is_flat() -> None:
    (event,) = project(samples.EVERY[1], BETA)
    session = event["session"]
    assert isinstance(session, dict)
    assert session["input_audio_format"] == "pcm16"
    assert "audio" not in session
