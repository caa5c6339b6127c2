"""The session PersonaPlex wants."""

from __future__ import annotations

import pytest

from duplex_es.client import AudioFormat
from duplex_es.client.presets.personaplex import MODEL, create_duplex_session_config

pytestmark = pytest.mark.unit


def test_it_hears_float_samples_and_sends_even_an_empty_persona() -> None:
    config = create_duplex_session_config()
    wire = config.to_wire(model=MODEL, session_id=None)
    assert config.input_audio == AudioFormat("pcm_f32le", 24_000)
    assert (wire["voice"], wire["instructions"]) == ("NATF2.pt", "")


def test_an_override_replaces_its_field() -> None:
    config = create_duplex_session_config(persona="A baker.", voice="VARM0.pt", idle_timeout_s=9)
    assert (config.instructions, config.voice, config.idle_timeout_s) == ("A baker.", "VARM0.pt", 9)
