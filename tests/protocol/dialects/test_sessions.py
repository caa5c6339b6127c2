"""The session object of stock clients."""

from __future__ import annotations

from typing import Any

import pytest

from duplex_es.protocol import SessionObject
from duplex_es.protocol.dialects import MAX_ECHO_CHARS
from duplex_es.protocol.dialects.sessions import beta_session, ga_session
from tests.protocol.dialects.samples import PUBLIC_SESSION

pytestmark = pytest.mark.unit

GA_KEYS = {
    "type",
    "object",
    "id",
    "model",
    "instructions",
    "tools",
    "tool_choice",
    "output_modalities",
    "max_output_tokens",
    "audio",
}


def shown(**changes: Any) -> dict[str, Any]:
    """The session object of a session that differs from the usual one in this."""
    return ga_session({**PUBLIC_SESSION, **changes})


def test_a_session_is_a_realtime_session_of_24_khz_with_defaults() -> None:
    session = shown()
    pcm = {"type": "audio/pcm", "rate": 24000}
    assert set(session) == GA_KEYS
    assert (session["type"], session["object"]) == ("realtime", "realtime.session")
    assert (session["id"], session["model"]) == ("sess_demo_01", "cascade")
    assert (session["audio"]["input"]["format"], session["audio"]["output"]["format"]) == (pcm, pcm)
    assert session["audio"]["input"]["turn_detection"]["interrupt_response"] is True
    assert (session["output_modalities"], session["tools"], session["tool_choice"]) == (["audio"], [], "auto")
    assert session["max_output_tokens"] == "inf"


def test_no_key_of_this_service_is_among_the_settings() -> None:
    ours = set(SessionObject.__struct_fields__) - GA_KEYS - {"tracing"}
    assert not ours & set(shown(**dict.fromkeys(ours, 1)))


def test_what_the_client_set_is_shown_where_it_looks_for_it() -> None:
    session = shown(
        voice="marin",
        speed=1.1,
        max_tokens=400,
        modalities=["text"],
        input_audio_transcription={"model": "whisper-1"},
        input_audio_noise_reduction={"type": "near_field"},
        tracing="auto",
        prompt={"id": "p"},
        include=["item.input_audio_transcription.logprobs"],
        truncation="auto",
        expires_at=1_800_000_000,
        tool_choice={"type": "function", "name": "f"},
        tools=[{"type": "function", "name": "f"}],
    )
    assert session["audio"]["output"] == {
        "format": {"type": "audio/pcm", "rate": 24000},
        "voice": "marin",
        "speed": 1.1,
    }
    heard = session["audio"]["input"]
    assert (heard["transcription"], heard["noise_reduction"]) == ({"model": "whisper-1"}, {"type": "near_field"})
    assert (session["max_output_tokens"], session["output_modalities"]) == (400, ["text"])
    assert (session["tracing"], session["prompt"], session["truncation"]) == ("auto", {"id": "p"}, "auto")
    assert (session["expires_at"], session["tool_choice"]["name"], len(session["tools"])) == (1_800_000_000, "f", 1)


def test_what_is_not_set_is_left_out_but_for_manual_turns() -> None:
    session = shown(turn_detection=None, extra_body={"auto_response": False}, tracing=None, prompt=None)
    assert session["audio"]["input"].pop("turn_detection", "absent") is None
    assert None not in session.values()
    assert None not in session["audio"]["input"].values()
    assert None not in session["audio"]["output"].values()


@pytest.mark.parametrize(
    ("name", "wire", "rate"),
    [("g711_ulaw", "audio/pcmu", 8000), ("audio/pcma", "audio/pcma", 8000), ("pcm16", "audio/pcm", 16000)],
)
def test_a_format_is_told_as_it_is(name: str, wire: str, rate: int) -> None:
    audio = {"input": {"format": {"type": wire, "rate": rate}}, "output": {}}
    session = shown(input_audio_format=name, audio=audio)
    expected = {"type": wire, "rate": rate} if wire == "audio/pcm" else {"type": wire}
    assert session["audio"]["input"]["format"] == expected
    assert session["audio"]["output"]["format"] == {"type": "audio/pcm", "rate": 24000}


def test_a_format_is_read_from_wherever_it_stands() -> None:
    block = {"input": {"format": {"type": "audio/pcmu", "rate": 8000}}}
    assert shown(input_audio_format=None, audio=block)["audio"]["input"]["format"] == {"type": "audio/pcmu"}
    assert shown(input_audio_format={"type": "audio/pcma"})["audio"]["input"]["format"] == {"type": "audio/pcma"}
    assert shown(input_audio_format="opus", audio=None)["audio"]["input"]["format"]["type"] == "audio/pcm"


def test_long_instructions_are_echoed_up_to_a_length() -> None:
    assert len(shown(instructions="x" * 2 * MAX_ECHO_CHARS)["instructions"]) == MAX_ECHO_CHARS
    assert shown(instructions=None)["instructions"] == ""


def test_an_object_that_says_nothing_is_still_a_session() -> None:
    session: Any = ga_session({})
    assert (session["id"], session["output_modalities"]) == ("", ["audio"])
    assert "model" not in session


def test_the_beta_is_flat_and_names_formats() -> None:
    session = beta_session({**PUBLIC_SESSION, "voice": "alloy", "temperature": 0.8, "max_tokens": 100})
    assert (session["input_audio_format"], session["output_audio_format"]) == ("pcm16", "pcm16")
    assert (session["modalities"], session["voice"], session["temperature"]) == (["text", "audio"], "alloy", 0.8)
    assert session["max_response_output_tokens"] == 100
    assert isinstance(session["turn_detection"], dict)
    assert not {"audio", "type", "output_modalities", "capabilities", "epoch"} & set(session)


def test_the_beta_leaves_out_what_is_not_set() -> None:
    assert beta_session(PUBLIC_SESSION).keys() == {
        "object",
        "id",
        "model",
        "instructions",
        "tools",
        "tool_choice",
        "modalities",
        "input_audio_format",
        "output_audio_format",
        "turn_detection",
        "max_response_output_tokens",
    }
