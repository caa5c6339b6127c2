"""The public session object shows what is in force, where the session stands, and what else the client wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from duplex_es.protocol import AcknowledgePlayback, CloseSession, UpdateSession
from duplex_es.session.projection.session_object import session_object
from duplex_es.session.state import Session
from tests.session.cast import answer, eager, patient, response_id, said, spoke

pytestmark = pytest.mark.unit

SEED = Path(__file__).parents[2] / "protocol" / "fixtures" / "seed_examples.json"


def shown(scenario: Any) -> Any:
    return session_object(scenario.session)


def test_it_has_every_key_of_the_published_example() -> None:
    examples = (one["event"] for one in json.loads(SEED.read_text()))
    (example,) = (one["session"] for one in examples if one["type"] == "session.created")
    made = shown(patient())
    assert example.keys() <= made.keys()
    assert example["capabilities"].keys() <= made["capabilities"].keys()
    assert example["playback"].keys() == made["playback"].keys()
    assert example["audio"]["input"].keys() <= made["audio"]["input"].keys()


def test_it_shows_where_the_session_stands() -> None:
    idle = shown(patient())
    assert (idle["id"], idle["state"], idle["turn_state"], idle["epoch"]) == ("s1", "open", "idle", 0)
    assert (idle["active_response_id"], idle["active_response_turn_id"]) == (None, None)
    speaking = shown(patient().given(spoke(), said("One."), AcknowledgePlayback(played_ms=300)))
    assert (speaking["turn_state"], speaking["active_response_id"]) == ("assistant_playing", response_id())
    assert speaking["playback"] == {"generated_ms": 1_000, "sent_ms": 1_000, "played_ms": 300, "committed_ms": 300}
    assert shown(patient().given(*answer("One.")))["turn_id"] == 1
    assert shown(patient().given(CloseSession()))["state"] == "closed"
    assert session_object(Session())["state"] == "open"


def test_both_spellings_of_a_setting_are_shown() -> None:
    made = shown(patient(output_modalities=["text"], input_audio_format="g711_ulaw"))
    assert (made["modalities"], made["output_modalities"]) == (["text"], ["text"])
    assert made["input_audio_format"] == "g711_ulaw"
    assert made["audio"]["input"] == {"format": {"type": "audio/pcmu", "rate": 8_000}, "sample_rate_hz": 8_000}
    assert made["audio"]["output"]["format"] == {"type": "audio/pcm", "rate": 24_000}


def test_what_else_the_client_wrote_is_shown_again_but_never_instead_of_what_holds() -> None:
    scenario = patient(
        metadata={"a": 1},
        tools=[{"name": "f"}],
        epoch=99,
        state="happy",
        audio={
            "input": {"format": {"type": "audio/pcm", "rate": 24_000}, "noise_reduction": {"type": "near_field"}},
            "output": {"voice": "anna", "speed": 1.5},
        },
        extra_body={"force_listen_count": 0},
    )
    made = shown(scenario)
    assert (made["metadata"], made["tools"], made["epoch"], made["state"]) == ({"a": 1}, [{"name": "f"}], 0, "open")
    assert made["extra_body"] == {"force_listen_count": 0}
    assert made["audio"]["input"]["noise_reduction"] == {"type": "near_field"}
    assert made["audio"]["output"]["voice"] == "anna"
    later = shown(scenario.given(UpdateSession(session={"voice": "ben", "input_audio_format": "pcm16"})))
    assert later["audio"]["output"]["voice"] == "ben"
    assert later["audio"]["input"]["format"] == {"type": "audio/pcm", "rate": 16_000}


def test_turn_detection_is_shown_only_once_it_was_spoken_of() -> None:
    assert "turn_detection" not in shown(patient())["audio"]["input"]
    made = shown(patient(turn_detection={"type": "server_vad"}))
    assert made["turn_detection"]["threshold"] == 0.5
    assert made["audio"]["input"]["turn_detection"] == made["turn_detection"]
    off = shown(patient(audio={"input": {"turn_detection": None}}))
    assert off["audio"]["input"]["turn_detection"] is None


def test_a_model_that_interrupts_itself_shows_its_policy() -> None:
    assert shown(eager())["overlap_policy"] == "barge_in_on_speech"
