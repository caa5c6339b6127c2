"""The catalogue of what a client can say, and what commands answer about themselves."""

from __future__ import annotations

import pytest

from duplex_es.protocol import (
    ALIASES,
    COMMANDS,
    AppendAudio,
    ResumeSession,
    SignalTurn,
    TextHints,
    VadHints,
)

pytestmark = pytest.mark.unit

NAMES = {
    "session.update": "UpdateSession",
    "session.heartbeat": "Heartbeat",
    "session.event_ack": "AcknowledgeEvents",
    "session.close": "CloseSession",
    "session.resume": "ResumeSession",
    "input_audio_buffer.append": "AppendAudio",
    "input_audio_buffer.commit": "CommitInput",
    "input.commit": "CommitTurn",
    "input_audio_buffer.clear": "ClearInput",
    "input.cancel": "CancelInput",
    "input.text.append": "AppendText",
    "conversation.item.create": "CreateItem",
    "conversation.item.retrieve": "RetrieveItem",
    "conversation.item.delete": "DeleteItem",
    "conversation.item.truncate": "TruncateItem",
    "response.create": "CreateResponse",
    "response.cancel": "CancelResponse",
    "output_audio_buffer.clear": "ClearOutput",
    "barge_in": "BargeIn",
    "turn.signal": "SignalTurn",
    "playback.ack": "AcknowledgePlayback",
}


def test_the_commands_are_the_21_of_the_catalogue_in_its_order() -> None:
    assert len(NAMES) == 21
    assert {name: command.__name__ for name, command in COMMANDS.items()} == NAMES
    assert list(COMMANDS) == list(NAMES)


def test_every_alias_leads_to_a_command_and_hides_none() -> None:
    assert len(ALIASES) == 9
    assert set(ALIASES.values()) <= set(COMMANDS)
    assert not set(ALIASES) & set(COMMANDS)


def test_a_resume_without_a_last_seq_wants_everything() -> None:
    resume = ResumeSession(session_id="s", incarnation=0, resume_token="rt")
    assert resume.after_seq == 0


def test_a_resume_wants_what_comes_after_its_last_seq() -> None:
    resume = ResumeSession(session_id="s", incarnation=0, resume_token="rt", last_received_server_event_seq=40)
    assert resume.after_seq == 40


def test_the_format_of_an_append_is_the_first_it_names() -> None:
    assert AppendAudio(audio=b"").declared_format is None
    assert AppendAudio(audio=b"", input_audio_format="pcm16").declared_format == "pcm16"
    assert AppendAudio(audio=b"", format="ulaw", input_audio_format="pcm16").declared_format == "ulaw"


@pytest.mark.parametrize(
    ("append", "verdict"),
    [
        (AppendAudio(audio=b""), None),
        (AppendAudio(audio=b"", is_speech=False, speech_probability=0.9), False),
        (AppendAudio(audio=b"", vad=VadHints(is_speech=True, speech_probability=0.1)), True),
        (AppendAudio(audio=b"", vad=VadHints(speech_probability=0.5)), True),
        (AppendAudio(audio=b"", vad=VadHints(backend="silero"), speech_probability=0.49), False),
    ],
)
def test_a_plain_verdict_outranks_the_detector_and_that_a_probability(
    append: AppendAudio, verdict: bool | None
) -> None:
    assert append.speech_verdict is verdict


@pytest.mark.parametrize(
    ("append", "hint"),
    [
        (AppendAudio(audio=b""), ""),
        (AppendAudio(audio=b"", text="one", hints=TextHints(transcript="two")), "one"),
        (AppendAudio(audio=b"", transcript="", hints=TextHints(text="two")), "two"),
    ],
)
def test_the_transcript_hint_is_the_first_that_says_something(append: AppendAudio, hint: str) -> None:
    assert append.transcript_hint == hint


@pytest.mark.parametrize(
    ("signal", "named"),
    [
        (SignalTurn(event="response.cancel"), None),
        (SignalTurn(event="response.cancel", payload={"response_id": "resp_1"}), "resp_1"),
        (SignalTurn(event="response.cancel", payload={"response_id": 7}), None),
        (SignalTurn(event="response.cancel", payload={"response_id": "resp_1"}, response_id="resp_2"), "resp_2"),
    ],
)
def test_a_signal_names_its_response_in_the_event_or_else_in_the_payload(signal: SignalTurn, named: str | None) -> None:
    assert signal.named_response_id == named
