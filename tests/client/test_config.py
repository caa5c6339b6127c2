"""The opening session object."""

from __future__ import annotations

import pytest

from duplex_es.client import AudioFormat, SessionConfig

pytestmark = pytest.mark.unit


def test_the_defaults_say_only_what_every_server_needs() -> None:
    assert SessionConfig().to_wire(model="cascade", session_id=None) == {
        "model": "cascade",
        "modalities": ["audio", "text"],
        "input_audio_format": "pcm16",
        "output_audio_format": "pcm16",
        "sample_rate_hz": 16_000,
        "audio": {"input": {"sample_rate_hz": 16_000}, "output": {"sample_rate_hz": 24_000}},
        "turn_detection": None,
        "extra_body": {"auto_response": True},
    }


def test_a_set_field_is_sent_under_its_own_name() -> None:
    config = SessionConfig(
        input_audio=AudioFormat("pcm_f32le", 24_000), instructions="", temperature=0.0, idle_timeout_s=9.0
    )
    wire = config.to_wire(model="m", session_id="sess_9")
    assert wire["instructions"] == ""
    assert wire["temperature"] == 0.0
    assert wire["idle_timeout_s"] == 9.0
    assert wire["session_id"] == "sess_9"
    assert wire["input_audio_format"] == "pcm_f32le"
    assert wire["sample_rate_hz"] == 24_000
    assert "voice" not in wire


def test_an_extra_body_entry_wins_over_the_field_of_its_name() -> None:
    wire = SessionConfig(extra_body={"auto_response": False, "native_duplex": True}).to_wire(model="m", session_id=None)
    assert wire["extra_body"] == {"auto_response": False, "native_duplex": True}


def test_tools_are_sent_only_when_there_are_any_to_name() -> None:
    tool = {"type": "function", "name": "get_weather"}
    assert SessionConfig(tools=[tool]).to_wire(model="m", session_id=None)["tools"] == [tool]
    assert SessionConfig(tools=[]).to_wire(model="m", session_id=None)["tools"] == []
    assert "tools" not in SessionConfig().to_wire(model="m", session_id=None)


def test_turn_detection_travels_as_it_is() -> None:
    wire = SessionConfig(turn_detection={"type": "server_vad"}).to_wire(model="m", session_id=None)
    assert wire["turn_detection"] == {"type": "server_vad"}
