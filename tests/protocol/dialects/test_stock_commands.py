"""What stock clients leave unsaid, written out."""

from __future__ import annotations

from typing import Any

import pytest

from duplex_es.protocol import (
    COMMANDS,
    AppendAudio,
    Command,
    CommitInput,
    CreateResponse,
    UpdateSession,
    read_config,
    read_response_options,
)
from duplex_es.protocol.dialects import BETA, DIALECTS, DUPLEX, GA, NATIVE, opening_settings, rewrite_command
from duplex_es.protocol.dialects.sessions import ga_session
from duplex_es.protocol.dialects.stock_commands import IDLE_TIMEOUT_S, stock_settings
from tests.protocol.dialects.samples import Call

pytestmark = pytest.mark.unit

# What three clients send right after they connect, taken from their sockets.
OPENAI_AGENTS: dict[str, Any] = {
    "type": "realtime",
    "model": "gpt-realtime-2",
    "audio": {
        "input": {
            "format": {"type": "audio/pcm", "rate": 24000},
            "transcription": {"model": "gpt-4o-mini-transcribe"},
            "turn_detection": {"type": "semantic_vad", "interrupt_response": True},
        },
        "output": {"format": {"type": "audio/pcm", "rate": 24000}, "voice": "ash"},
    },
    "output_modalities": ["audio"],
    "tracing": "auto",
    "tools": [],
}
LIVEKIT: dict[str, Any] = {
    "type": "realtime",
    "output_modalities": ["audio"],
    "audio": {
        "input": {
            "format": {"type": "audio/pcm", "rate": 24000},
            "noise_reduction": None,
            "transcription": {"model": "gpt-4o-mini-transcribe"},
            "turn_detection": {
                "type": "semantic_vad",
                "create_response": True,
                "eagerness": "medium",
                "interrupt_response": True,
            },
        },
        "output": {"format": {"type": "audio/pcm", "rate": 24000}, "speed": 1.0, "voice": "marin"},
    },
    "max_output_tokens": "inf",
}
PIPECAT: dict[str, Any] = {
    "type": "realtime",
    "instructions": "Be brief.",
    "audio": {"input": {"turn_detection": None}},
    "tools": [],
}


def settings(session: dict[str, Any], dialect: str = GA, *, opening: bool = False) -> dict[str, Any]:
    """What the settings of an update become."""
    made = rewrite_command(UpdateSession(session=session), dialect, opening=opening)
    assert isinstance(made, UpdateSession)
    return made.session


# -- opening -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", [GA, BETA])
def test_a_stock_client_opens_at_24_khz_with_a_detector_that_answers(dialect: str) -> None:
    config = read_config(opening_settings(dialect))
    assert (config.input_encoding, config.input_rate_hz) == ("pcm16", 24_000)
    assert (config.output_encoding, config.output_rate_hz) == ("pcm16", 24_000)
    assert config.turn_detection
    assert config.turn_detection.silence_duration_ms == 500
    assert config.auto_response is True
    assert config.idle_timeout_s == IDLE_TIMEOUT_S


@pytest.mark.parametrize("dialect", [DUPLEX, NATIVE])
def test_a_seed_client_has_no_defaults_but_the_sessions(dialect: str) -> None:
    assert opening_settings(dialect) == {}


def test_defaults_lie_under_what_the_opening_says() -> None:
    opened = settings({"audio": {"input": {"format": {"type": "audio/pcmu"}}}, "model": "m"}, opening=True)
    config = read_config(opened)
    assert (config.input_encoding, config.input_rate_hz, config.model) == ("g711_ulaw", 8_000, "m")
    assert (config.output_rate_hz, config.auto_response) == (24_000, True)


def test_an_opening_that_wants_manual_turns_has_no_detector() -> None:
    config = read_config(settings(PIPECAT, opening=True))
    assert config.turn_detection is None
    assert config.auto_response is False


def test_a_later_update_changes_only_what_it_says() -> None:
    assert settings({"type": "realtime", "instructions": "Be kind."}) == {"instructions": "Be kind."}


def test_defaults_are_a_fresh_object_every_time() -> None:
    first: Any = opening_settings(GA)
    first["turn_detection"]["threshold"] = 1
    assert opening_settings(GA) != first


# -- updates -------------------------------------------------------------------------------------------------------


def test_nested_settings_get_the_names_the_session_keeps_them_by() -> None:
    made = settings(LIVEKIT)
    assert made.pop("stock_turn_detection")["eagerness"] == "medium"
    assert made == {
        "modalities": ["audio"],
        "input_audio_format": {"type": "audio/pcm", "rate": 24000},
        "output_audio_format": {"type": "audio/pcm", "rate": 24000},
        "input_audio_transcription": {"model": "gpt-4o-mini-transcribe"},
        "input_audio_noise_reduction": None,
        "voice": "marin",
        "speed": 1.0,
        "max_output_tokens": "inf",
        "turn_detection": {
            "type": "server_vad",
            "threshold": 0.5,
            "prefix_padding_ms": 300,
            "silence_duration_ms": 500,
        },
        "extra_body": {"auto_response": True},
    }


def test_the_model_is_chosen_when_the_session_opens() -> None:
    assert "model" not in settings(OPENAI_AGENTS)
    assert settings(OPENAI_AGENTS, opening=True)["model"] == "gpt-realtime-2"


@pytest.mark.parametrize(
    ("declared", "rate_hz"),
    [
        ({"type": "audio/pcm"}, 24_000),
        ({"type": "audio/pcm", "rate": 16000}, 16_000),
        ({"type": "audio/pcmu"}, 8_000),
        ("pcm16", 24_000),
        ("g711_alaw", 8_000),
    ],
)
@pytest.mark.parametrize("dialect", [GA, BETA])
def test_a_pcm_format_without_a_rate_is_one_of_24_khz(declared: object, rate_hz: int, dialect: str) -> None:
    flat = read_config(settings({"input_audio_format": declared}, dialect))
    nested = read_config(settings({"audio": {"input": {"format": declared}}}, dialect))
    assert flat.input_rate_hz == nested.input_rate_hz == rate_hz


def test_the_flat_spelling_of_the_beta_is_read_too() -> None:
    beta = {
        "modalities": ["text", "audio"],
        "voice": "alloy",
        "turn_detection": {"type": "server_vad", "create_response": False},
        "max_response_output_tokens": 300,
        "temperature": 0.8,
    }
    config = read_config(settings(beta, BETA))
    assert (config.modalities, config.voice, config.max_output_tokens) == (["text", "audio"], "alloy", 300)
    assert (config.temperature, config.auto_response) == (0.8, False)


def test_an_explicit_choice_of_the_client_beats_the_rewriting() -> None:
    made = settings({"turn_detection": None, "extra_body": {"auto_response": True, "x": 1}})
    assert made["extra_body"] == {"auto_response": True, "x": 1}
    assert settings({"turn_detection": None, "extra_body": {"x": 1}})["extra_body"] == {"x": 1, "auto_response": False}


def test_a_detection_nobody_knows_is_refused_by_the_session_itself() -> None:
    made = settings({"audio": {"input": {"turn_detection": {"type": "telepathy"}}}})
    assert made == {"turn_detection": {"type": "telepathy"}}


@pytest.mark.parametrize("session", [{"audio": None}, {"audio": []}, {"audio": {"input": 3}}, {"tools": "x"}, {}])
def test_nonsense_is_left_for_the_session_to_judge(session: dict[str, Any]) -> None:
    assert stock_settings(session, GA, opening=False) == {k: v for k, v in session.items() if k != "audio"}


def test_the_update_keeps_the_clients_event_id() -> None:
    made = rewrite_command(UpdateSession(session={}, event_id="evt_1"), GA)
    assert made.event_id == "evt_1"


# -- other commands ------------------------------------------------------------------------------------------------


def test_a_commit_means_what_it_says_even_of_quiet_audio() -> None:
    assert rewrite_command(CommitInput(event_id="e"), GA) == CommitInput(event_id="e", is_speech=True)
    said = CommitInput(is_speech=False)
    assert rewrite_command(said, GA) is said


def test_options_that_only_repeat_a_default_are_not_asked_for() -> None:
    asked = CreateResponse(
        response={
            "output_modalities": ["audio"],
            "instructions": "Be brief.",
            "metadata": {"client_event_id": "evt_1"},
            "audio": {"output": {"voice": "marin"}},
            "voice": "marin",
            "tool_choice": "auto",
            "tools": [],
            "max_output_tokens": "inf",
            "conversation": "none",
        }
    )
    made = rewrite_command(asked, GA)
    assert isinstance(made, CreateResponse)
    options = read_response_options(made.response)
    assert (options.modalities, options.instructions, options.conversation) == (["audio"], "Be brief.", "none")
    assert options.metadata == {"client_event_id": "evt_1"}
    assert not options.voice
    assert not options.tools
    assert not options.tool_choice
    assert options.max_output_tokens is None


def test_a_choice_of_tools_stays_a_choice() -> None:
    asked = CreateResponse(response={"tool_choice": "required", "tools": [{"type": "function", "name": "f"}]})
    assert rewrite_command(asked, GA) == asked


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_other_command_is_the_very_same(dialect: str) -> None:
    required: dict[str, dict[str, Any]] = {
        "session.event_ack": {"server_event_seq": 1},
        "session.resume": {"session_id": "s", "incarnation": 0, "resume_token": "rt"},
        "input_audio_buffer.append": {"audio": b"\0\0"},
        "input.text.append": {"text": "hi"},
        "turn.signal": {"event": "x"},
        "conversation.item.create": {"item": {}},
        "session.update": {"session": {}},
    }
    for name, struct in COMMANDS.items():
        command: Command = struct(**required.get(name, {}))
        rewritten = dialect in (GA, BETA) and name in ("session.update", "input_audio_buffer.commit")
        assert (rewrite_command(command, dialect) is command) is not rewritten, name


def test_a_seed_client_is_taken_at_its_word() -> None:
    command = UpdateSession(session={"audio": {"input": {"turn_detection": {"type": "semantic_vad"}}}})
    assert rewrite_command(command, DUPLEX, opening=True) is command


# -- through a session ---------------------------------------------------------------------------------------------


def test_an_update_that_says_little_leaves_the_rest_as_it_was() -> None:
    call = Call(opening_settings(GA))
    for session in (LIVEKIT, {"type": "realtime", "instructions": "Be kind."}):
        call.take(rewrite_command(UpdateSession(session=session), GA))
    shown: Any = ga_session(call.heard[-1].session)  # type: ignore[union-attr]
    assert shown["instructions"] == "Be kind."
    assert shown["audio"] == {
        "input": {
            "format": {"type": "audio/pcm", "rate": 24000},
            "transcription": {"model": "gpt-4o-mini-transcribe"},
            "turn_detection": {
                "type": "semantic_vad",
                "eagerness": "medium",
                "create_response": True,
                "interrupt_response": True,
            },
        },
        "output": {"format": {"type": "audio/pcm", "rate": 24000}, "voice": "marin", "speed": 1.0},
    }


def test_null_really_switches_detection_off_and_a_detector_on_again() -> None:
    call = Call(opening_settings(GA))
    shown = []
    for wanted in (None, {"type": "server_vad", "silence_duration_ms": 700}, {"type": "server_vad"}):
        call.take(rewrite_command(UpdateSession(session={"audio": {"input": {"turn_detection": wanted}}}), GA))
        shown.append(ga_session(call.heard[-1].session)["audio"]["input"]["turn_detection"])  # type: ignore
    assert shown[0] is None
    assert shown[1]["silence_duration_ms"] == 700
    assert shown[2]["silence_duration_ms"] == 700, "what is not named stays"
    assert shown[2]["create_response"]
    assert shown[2]["interrupt_response"]


def test_audio_is_taken_at_the_rate_that_was_agreed() -> None:
    call = Call(opening_settings(GA))
    command = rewrite_command(AppendAudio(audio=b"\0\0" * 24_000), GA)
    assert command == AppendAudio(audio=b"\0\0" * 24_000)
    assert call.session.settings.input_rate_hz == 24_000
