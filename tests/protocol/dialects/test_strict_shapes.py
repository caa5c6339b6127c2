"""Every event is held against the strictest validators there are: the published types, with nothing let through.

openai-agents validates with these very types. The other clients have a run of their own in tests/clients.
"""

from __future__ import annotations

import json
from typing import Any

import pydantic
import pytest
from openai.types import realtime
from openai.types.beta import realtime as beta_realtime

from duplex_es.protocol import Frame, UpdateSession, wire_name
from duplex_es.protocol.dialects import BETA, GA, opening_settings, render, rewrite_command
from tests.protocol.dialects import samples
from tests.protocol.dialects.test_stock_commands import LIVEKIT, OPENAI_AGENTS, PIPECAT

pytestmark = pytest.mark.unit

ADAPTERS: dict[str, pydantic.TypeAdapter[Any]] = {
    GA: pydantic.TypeAdapter(realtime.RealtimeServerEvent),
    BETA: pydantic.TypeAdapter(beta_realtime.RealtimeServerEvent),
}
MODEL = "gpt-4o-realtime-preview"
"""The beta types know OpenAI's own models only."""


def refusals(frames: list[Frame], dialect: str) -> list[str]:
    """Why some event of ``frames`` is not one, if any is not."""
    found = []
    for number, frame in enumerate(frames):
        for text in render(frame, dialect, event_id=f"event_{number}", seq=number):
            event = json.loads(text)
            if dialect == BETA and "model" in event.get("session", {}):
                event["session"]["model"] = MODEL
            try:
                ADAPTERS[dialect].validate_python(event)
            except pydantic.ValidationError as error:
                named = [row for row in error.errors() if wire_name(frame) in map(str, row["loc"])]
                found.append(f"{event['type']}: {[(row['loc'][-3:], row['type']) for row in named[:4]]}")
    return found


@pytest.mark.parametrize("dialect", [GA, BETA])
@pytest.mark.parametrize("frame", samples.EVERY, ids=wire_name)
def test_each_frame_is_heard_as_a_valid_event(frame: Frame, dialect: str) -> None:
    assert refusals([frame], dialect) == []


@pytest.mark.parametrize("dialect", [GA, BETA])
def test_every_published_example_is_heard_as_a_valid_event(dialect: str) -> None:
    # A session opened by a seed client may listen at 16 kHz, which the GA types cannot say.
    frames = [frame for frame in samples.published() if not wire_name(frame).startswith("session.created")]
    assert len(frames) > 45
    assert refusals(frames, dialect) == []


@pytest.mark.parametrize("dialect", [GA, BETA])
@pytest.mark.parametrize("session", [{}, OPENAI_AGENTS, LIVEKIT, PIPECAT], ids=["bare", "agents", "livekit", "pipecat"])
def test_a_whole_call_is_valid_from_end_to_end(session: dict[str, Any], dialect: str) -> None:
    opening = rewrite_command(UpdateSession(session=session), dialect, opening=True)
    assert isinstance(opening, UpdateSession)
    assert set(opening_settings(dialect)) <= set(opening.session)
    frames = samples.whole_call(opening.session)
    assert len(frames) > 60
    assert refusals(frames, dialect) == []


def test_the_validator_does_refuse_what_the_published_contract_says() -> None:
    event = json.loads(render(samples.created(), "duplex", event_id="event_1")[0])
    with pytest.raises(pydantic.ValidationError):
        ADAPTERS[GA].validate_python(event)
