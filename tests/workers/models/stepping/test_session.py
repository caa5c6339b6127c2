"""What an engine is told of a session."""

from __future__ import annotations

import json

import pytest

from duplex_es.model import OpenModel
from workers.models.stepping.session import opening_of

pytestmark = pytest.mark.unit


def test_an_engine_gets_the_settings_in_plain_values_and_nothing_else() -> None:
    request = OpenModel(session_id="s", incarnation=1, epoch=2, instructions="Be kind.", voice="NATF2.pt", memory=b"m")
    told = opening_of(request)
    assert json.loads(json.dumps(told)) == told
    assert told["voice"] == "NATF2.pt"
    assert set(told) == {
        *("session_id", "incarnation", "instructions", "voice", "temperature", "tools", "extra_body"),
    }
