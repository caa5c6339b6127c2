"""The session the cascade wants."""

from __future__ import annotations

import pytest

from duplex_es.client.presets.cascade import MODEL, create_duplex_session_config

pytestmark = pytest.mark.unit


def test_it_finds_turns_by_itself_and_lets_itself_be_interrupted() -> None:
    wire = create_duplex_session_config(input_rate_hz=8_000).to_wire(model=MODEL, session_id=None)
    assert wire["turn_detection"] == {"type": "server_vad"}
    assert (wire["overlap_policy"], wire["playback_commit_policy"]) == ("barge_in_on_speech", "ack_only")
    assert wire["sample_rate_hz"] == 8_000


def test_an_override_replaces_its_field() -> None:
    config = create_duplex_session_config(turn_detection=None, overlap_policy="listen_only", instructions="Be brief.")
    assert (config.turn_detection, config.overlap_policy, config.instructions) == (None, "listen_only", "Be brief.")
