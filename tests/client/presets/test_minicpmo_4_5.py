"""The session MiniCPM-o wants."""

from __future__ import annotations

import pytest

from duplex_es.client.presets.minicpmo_4_5 import MODEL, create_duplex_session_config

pytestmark = pytest.mark.unit


def test_it_opts_into_its_own_lane_and_confirms_its_playback() -> None:
    wire = create_duplex_session_config(ref_audio="data:audio/wav;base64,AAAA").to_wire(model=MODEL, session_id=None)
    assert wire["extra_body"] == {"auto_response": True, "native_duplex": True, "force_listen_count": 0}
    assert (wire["overlap_policy"], wire["playback_commit_policy"]) == ("listen_only", "ack_only")
    assert (wire["sample_rate_hz"], wire["audio"]["output"]["sample_rate_hz"]) == (16_000, 24_000)
    assert wire["ref_audio"].startswith("data:")


def test_an_override_replaces_its_field_and_extra_body_is_merged() -> None:
    config = create_duplex_session_config(temperature=0.6, extra_body={"force_listen_count": 2, "mine": 1})
    assert config.temperature == 0.6
    assert config.extra_body == {"native_duplex": True, "force_listen_count": 2, "mine": 1}


def test_a_field_that_does_not_exist_is_refused() -> None:
    with pytest.raises(TypeError, match="temprature"):
        create_duplex_session_config(temprature=0.6)
