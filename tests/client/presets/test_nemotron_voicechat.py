"""The session Nemotron VoiceChat wants."""

from __future__ import annotations

import pytest

from duplex_es.client.presets.nemotron_voicechat import CHUNK_MS, MODEL, create_duplex_session_config

pytestmark = pytest.mark.unit


def test_it_answers_by_itself_and_knows_its_tools() -> None:
    tool = {"type": "function", "name": "get_weather"}
    config = create_duplex_session_config(instructions="Be brief.", tools=[tool], extra_body={"mine": 1})
    wire = config.to_wire(model=MODEL, session_id=None)
    assert wire["tools"] == [tool]
    assert wire["extra_body"] == {"auto_response": True, "mine": 1}
    assert (wire["sample_rate_hz"], wire["audio"]["output"]["sample_rate_hz"]) == (16_000, 22_050)


def test_its_longest_append_is_1280_samples() -> None:
    audio = create_duplex_session_config().input_audio
    assert audio.byte_count(CHUNK_MS) == 1_280 * audio.bytes_per_sample
