"""Settings and response options, under all their spellings and with every liberty."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from duplex_es.protocol import (
    ProtocolError,
    ResponseOptions,
    SessionConfig,
    TurnDetection,
    read_config,
    read_response_options,
)

pytestmark = pytest.mark.unit

EXAMPLES: list[dict[str, Any]] = json.loads((Path(__file__).parent / "fixtures" / "seed_examples.json").read_text())


def example(name: str) -> dict[str, Any]:
    """The first published event of this name."""
    event: dict[str, Any] = next(row["event"] for row in EXAMPLES if row["event"]["type"] == name)
    return event


def test_the_published_opening_is_read_whole() -> None:
    config = read_config(example("session.update")["session"])
    assert config == SessionConfig(
        model="openbmb/MiniCPM-o-4_5",
        session_id="sess_demo_01",
        modalities=["audio", "text"],
        instructions="You are a concise voice assistant.",
        ref_audio="data:audio/wav;base64,…",
        input_encoding="pcm16",
        input_rate_hz=16_000,
        output_encoding="pcm16",
        temperature=0.7,
        idle_timeout_s=300.0,
        overlap_policy="listen_only",
        playback_commit_policy="ack_only",
        turn_detection=None,
        extra_body={"auto_response": True, "native_duplex": True, "force_listen_count": 0},
        extra={"session_id": "sess_demo_01", "ref_audio": "data:audio/wav;base64,…"},
    )
    assert config.auto_response is True


def test_what_is_not_said_changes_nothing() -> None:
    assert read_config({}) == SessionConfig()
    assert read_config({}).auto_response is UNSET


GA: dict[str, Any] = {
    "type": "realtime",
    "output_modalities": ["audio"],
    "audio": {
        "input": {
            "format": {"type": "audio/pcm", "rate": 24_000},
            "turn_detection": {"type": "server_vad"},
            "transcription": {"model": "any"},
            "noise_reduction": {"type": "near_field"},
        },
        "output": {"format": {"type": "audio/pcmu"}, "voice": "marin", "speed": 1.5},
    },
    "max_output_tokens": "inf",
}


def test_the_spelling_of_stock_clients_is_read() -> None:
    assert read_config(GA) == SessionConfig(
        modalities=["audio"],
        voice="marin",
        speed=1.5,
        input_encoding="pcm16",
        input_rate_hz=24_000,
        output_encoding="g711_ulaw",
        turn_detection=TurnDetection(),
        max_output_tokens=None,
        input_audio_transcription={"model": "any"},
        input_audio_noise_reduction={"type": "near_field"},
        audio=GA["audio"],
        extra={"max_output_tokens": "inf"},
    )


@pytest.mark.parametrize(
    ("raw", "field", "value"),
    [
        ({"id": "s"}, "session_id", "s"),
        ({"session_id": "s", "id": "other"}, "session_id", "s"),
        ({"session_id": ""}, "session_id", UNSET),
        ({"session_id": 5}, "session_id", UNSET),
        ({"modalities": ["text"], "output_modalities": ["audio"]}, "modalities", ["text"]),
        ({"modalities": ["text", 5]}, "modalities", UNSET),
        ({"voice": "a", "audio": {"output": {"voice": "b"}}}, "voice", "a"),
        ({"instructions": None}, "instructions", None),
        ({"instructions": 5}, "instructions", UNSET),
        ({"temperature": 2}, "temperature", 2.0),
        ({"temperature": "warm"}, "temperature", UNSET),
        ({"max_response_output_tokens": 5, "max_tokens": 9}, "max_output_tokens", 5),
        ({"max_tokens": "many"}, "max_output_tokens", None),
        ({"speed": 1.1, "audio": {"output": {"speed": 2}}}, "speed", 1.1),
        ({"idle_timeout_s": 12}, "idle_timeout_s", 12.0),
        ({"idle_timeout_s": 0.001}, "idle_timeout_s", 0.1),
        ({"idle_timeout_s": -5}, "idle_timeout_s", 0.1),
        ({"idle_timeout_s": 0}, "idle_timeout_s", 300.0),
        ({"idle_timeout_s": None}, "idle_timeout_s", 300.0),
        ({"idle_timeout_s": "long"}, "idle_timeout_s", 300.0),
        ({"idle_timeout_s": True}, "idle_timeout_s", 300.0),
        ({"overlap_policy": " Barge_In_On_Speech "}, "overlap_policy", "barge_in_on_speech"),
        ({"overlap_policy": "shout"}, "overlap_policy", "listen_only"),
        ({"overlap_policy": 5}, "overlap_policy", UNSET),
        ({"overlap_short_ack_ms": 650.9}, "overlap_short_ack_ms", 650),
        ({"overlap_barge_in_ms": -1}, "overlap_barge_in_ms", 0),
        ({"overlap_barge_in_ms": 1e300}, "overlap_barge_in_ms", 2**53),
        ({"overlap_silence_rms": -0.5}, "overlap_silence_rms", 0.0),
        ({"overlap_silence_rms": "quiet"}, "overlap_silence_rms", UNSET),
        ({"playback_commit_policy": "ack_only"}, "playback_commit_policy", "ack_only"),
        ({"playback_commit_policy": "never"}, "playback_commit_policy", "commit_all_on_done"),
        ({"turn_detection": None}, "turn_detection", None),
        ({"tools": [{"name": "clock"}]}, "tools", [{"name": "clock"}]),
        ({"tools": {}}, "tools", UNSET),
        ({"tools": None}, "tools", None),
        ({"tool_choice": "auto"}, "tool_choice", "auto"),
        ({"metadata": {"a": 1}}, "metadata", {"a": 1}),
        ({"metadata": "a"}, "metadata", UNSET),
        ({"include": ["x"]}, "include", ["x"]),
        ({"prompt": {"id": "p"}}, "prompt", {"id": "p"}),
        ({"tracing": "auto"}, "tracing", "auto"),
        ({"input_audio_transcription": {"model": "m"}}, "input_audio_transcription", {"model": "m"}),
        (
            {"input_audio_noise_reduction": {"n": 1}, "audio": {"input": {"noise_reduction": {"n": 2}}}},
            "input_audio_noise_reduction",
            {"n": 2},
        ),
    ],
)
def test_a_setting_is_read_as_the_contract_has_it(raw: dict[str, object], field: str, value: object) -> None:
    assert getattr(read_config(raw), field) == value


@pytest.mark.parametrize(
    ("raw", "encoding", "rate"),
    [
        ({"input_audio_format": "pcm16"}, "pcm16", 16_000),
        ({"input_audio_format": "ulaw"}, "g711_ulaw", 8_000),
        ({"input_audio_format": "pcm16", "sample_rate_hz": 24_000}, "pcm16", 24_000),
        ({"input_audio_format": {"type": "audio/pcm", "rate": 8_000}, "sample_rate": 48_000}, "pcm16", 48_000),
        ({"input_audio_format": "pcm16", "audio": {"input": {"sample_rate_hz": 22_050}}}, "pcm16", 22_050),
        ({"input_audio_format": None, "audio": {"input": {"format": "f32le"}}}, "pcm_f32le", 16_000),
        ({"input_audio_format": "alaw", "audio": {"input": {"format": "pcm16"}}}, "g711_alaw", 8_000),
        ({"sample_rate_hz": 24_000}, UNSET, 24_000),
    ],
)
def test_the_input_format_and_rate_complete_each_other(raw: dict[str, object], encoding: object, rate: object) -> None:
    config = read_config(raw)
    assert (config.input_encoding, config.input_rate_hz) == (encoding, rate)


@pytest.mark.parametrize(
    ("raw", "encoding", "rate"),
    [
        ({"output_audio_format": "pcm16"}, "pcm16", UNSET),
        ({"response_format": "wav"}, "wav", UNSET),
        ({"output_audio_format": "ulaw", "audio": {"output": {"sample_rate_hz": 16_000}}}, "g711_ulaw", 16_000),
        ({"audio": {"output": {"format": {"type": "audio/pcm", "rate": 24_000}}}}, "pcm16", 24_000),
    ],
)
def test_the_output_rate_has_no_default(raw: dict[str, object], encoding: object, rate: object) -> None:
    for config in (read_config(raw), read_response_options(raw)):
        assert (config.output_encoding, config.output_rate_hz) == (encoding, rate)


@pytest.mark.parametrize(
    ("raw", "code", "param"),
    [
        ({"input_audio_format": "mp3"}, "unsupported_audio_format", "audio.input.format"),
        ({"input_audio_format": "wav"}, "unsupported_audio_format", "audio.input.format"),
        ({"input_audio_format": 5}, "unsupported_audio_format", "audio.input.format"),
        ({"sample_rate_hz": 7_999}, "unsupported_audio_format", "audio.input.format"),
        ({"sample_rate": True}, "unsupported_audio_format", "audio.input.format"),
        ({"audio": {"input": {"sample_rate": "16000"}}}, "unsupported_audio_format", "audio.input.format"),
        ({"output_audio_format": "pcm_f32le"}, "unsupported_audio_format", "audio.output.format"),
        ({"audio": {"output": {"sample_rate_hz": 1}}}, "unsupported_audio_format", "audio.output.format"),
        ({"turn_detection": {"type": "model_native"}}, "unsupported_turn_detection", "turn_detection"),
        (
            {"turn_detection": {"type": "model_native"}, "input_audio_format": "mp3"},
            "unsupported_turn_detection",
            "turn_detection",
        ),
    ],
)
def test_formats_and_turn_detection_are_refused_by_field(raw: dict[str, object], code: str, param: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        read_config(raw)
    assert (caught.value.code, caught.value.param) == (code, param)


def test_extra_body_overrules_the_top_level_when_the_session_opens() -> None:
    raw: dict[str, object] = {
        "overlap_policy": "listen_only",
        "overlap_barge_in_ms": 900,
        "extra_body": {"overlap_policy": "barge_in_on_speech", "overlap_barge_in_ms": 100},
    }
    opening, later = read_config(raw), read_config(raw, opening=False)
    assert (opening.overlap_policy, opening.overlap_barge_in_ms) == ("barge_in_on_speech", 100)
    assert (later.overlap_policy, later.overlap_barge_in_ms) == ("barge_in_on_speech", 900)


@pytest.mark.parametrize(
    ("extra_body", "auto"),
    [
        ({"auto_response": True}, True),
        ({"full_duplex": True}, True),
        ({"auto_response": 1}, False),
        ({"auto_response": False, "full_duplex": True}, False),
        ({}, UNSET),
    ],
)
def test_only_a_literal_true_lets_the_model_answer_by_itself(extra_body: dict[str, object], auto: object) -> None:
    assert read_config({"extra_body": extra_body}).auto_response is auto


@pytest.mark.parametrize(
    ("extra_body", "folded"),
    [
        ({"minicpmo45_native_duplex": True}, {"native_duplex": True}),
        ({"minicpmo45_native_duplex": True, "native_duplex": False}, {"native_duplex": False}),
        ("no object", UNSET),
        (None, UNSET),
    ],
)
def test_the_deprecated_opt_in_is_folded_into_its_name(extra_body: object, folded: object) -> None:
    assert read_config({"extra_body": extra_body}).extra_body == folded


def test_the_echo_keeps_all_else_the_client_sent() -> None:
    raw = {"voice": "a", "tools": [], "my_key": {"x": 1}, "sample_rate_hz": 16_000, "extra_body": {}, "ref_audio": "u"}
    assert read_config(raw).extra == {"tools": [], "my_key": {"x": 1}, "sample_rate_hz": 16_000, "ref_audio": "u"}


def test_a_long_reference_voice_is_used_but_not_echoed() -> None:
    config = read_config({"ref_audio": "A" * 2_049})
    assert config.ref_audio == "A" * 2_049
    assert config.extra == {}


def test_the_published_response_options_are_read_whole() -> None:
    assert read_response_options(example("response.create")["response"]) == ResponseOptions(
        modalities=["audio", "text"],
        instructions="Answer in one sentence.",
        output_encoding="pcm16",
        temperature=0.6,
        max_output_tokens=256,
        metadata={"trace": "turn-3"},
    )


def test_a_response_may_be_asked_for_without_options() -> None:
    assert read_response_options(UNSET) == read_response_options({}) == ResponseOptions()


def test_a_response_can_be_kept_out_of_history() -> None:
    assert read_response_options({"conversation": "none"}).conversation == "none"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
KEYS = sorted(
    {*SessionConfig.__struct_fields__, "input_audio_format", "output_audio_format", "sample_rate", "max_tokens"}
)


@given(st.dictionaries(st.sampled_from(KEYS) | st.text(), JSON))
def test_settings_are_read_or_refused_whatever_they_are_and_can_be_stored(raw: dict[str, object]) -> None:
    for read in (read_config, read_response_options):
        try:
            config = read(raw)
        except ProtocolError as error:
            assert error.code in ("unsupported_audio_format", "unsupported_turn_detection")
        else:
            assert msgspec.to_builtins(config) is not None
