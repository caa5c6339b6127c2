"""JSON ↔ commands and frames: every published example, every alias, every mistake."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import UNSET

from duplex_es.protocol import (
    ALIASES,
    COMMANDS,
    FIELD_ALIASES,
    FRAMES,
    MAX_EVENT_BYTES,
    AcknowledgePlayback,
    AppendAudio,
    CloseSession,
    CommitInput,
    CreateItem,
    Error,
    FlatError,
    FrameUnreadable,
    Heartbeat,
    OutputMetadata,
    ProtocolError,
    ResponseOutputAudioDelta,
    SessionHeartbeatAck,
    SignalTurn,
    UpdateSession,
    decode_command,
    decode_frame,
    encode_command,
    encode_frame,
    pack_input,
    to_plain,
    unpack_input,
)

pytestmark = pytest.mark.unit

EXAMPLES: list[dict[str, Any]] = json.loads((Path(__file__).parent / "fixtures" / "seed_examples.json").read_text())
PCM = b"\x00\x01\x02\x03"
AUDIO = base64.b64encode(PCM).decode()


def named(direction: str) -> list[Any]:
    """The examples of one direction, each under its event's name."""
    rows = [row["event"] for row in EXAMPLES if row["direction"] == direction]
    return [pytest.param(event, id=f"{number}-{event['type']}") for number, event in enumerate(rows, 1)]


def rejection(text: str | bytes) -> ProtocolError:
    """The error that reading ``text`` ends in."""
    with pytest.raises(ProtocolError) as caught:
        decode_command(text)
    return caught.value


# -- the published examples ----------------------------------------------------------------------------------------


def test_the_examples_show_every_command_and_every_frame() -> None:
    shown = {(row["direction"], row["event"]["type"]) for row in EXAMPLES}
    assert shown == {("client", name) for name in COMMANDS} | {("server", name) for name in FRAMES}
    assert len(EXAMPLES) == 79


@pytest.mark.parametrize("event", named("client"))
def test_a_published_command_is_read_and_written_back_as_it_was(event: dict[str, Any]) -> None:
    command = decode_command(json.dumps(event))
    assert isinstance(command, COMMANDS[event["type"]])
    assert json.loads(encode_command(command)) == event


@pytest.mark.parametrize("event", named("server"))
def test_a_published_frame_is_read_and_written_back_as_it_was(event: dict[str, Any]) -> None:
    frame = decode_frame(json.dumps(event))
    assert isinstance(frame, FlatError if isinstance(event.get("error"), str) else FRAMES[event["type"]])
    assert json.loads(encode_frame(frame)) == event
    assert to_plain(frame) == event


@pytest.mark.parametrize("event", named("client"))
def test_a_published_command_survives_the_log(event: dict[str, Any]) -> None:
    if event["type"] == "session.resume":
        event = {**event, "resume_token": "redacted"}
    said = unpack_input(*pack_input(decode_command(json.dumps(event)), 0)).said
    assert msgspec.to_builtins(said) == event


# -- aliases -------------------------------------------------------------------------------------------------------

EVENTS: dict[str, dict[str, Any]] = {
    "input_audio_buffer.append": {"audio": AUDIO},
    "input.text.append": {"text": "and tomorrow?"},
    "turn.signal": {"event": "user_started"},
    "playback.ack": {"played_ms": 100},
    "session.close": {},
}


@pytest.mark.parametrize(("alias", "name"), ALIASES.items())
def test_an_alias_is_read_as_the_command_it_stands_for(alias: str, name: str) -> None:
    command = decode_command(json.dumps({"type": alias, "event_id": "evt_1", **EVENTS[name]}))
    assert isinstance(command, COMMANDS[name])
    assert command.event_id == "evt_1"


@pytest.mark.parametrize("alias", ["push_chunk", "input.audio.append"])
def test_a_chunk_under_its_old_names_is_a_wav_file_unless_it_says_otherwise(alias: str) -> None:
    bare = decode_command(json.dumps({"type": alias, "audio": AUDIO}))
    declared = decode_command(json.dumps({"type": alias, "audio": AUDIO, "input_audio_format": "pcm16"}))
    assert isinstance(bare, AppendAudio)
    assert isinstance(declared, AppendAudio)
    assert (bare.declared_format, declared.declared_format) == ("wav", "pcm16")


VALUES = {
    "audio": (AUDIO, PCM),
    "sample_rate_hz": (8000, 8000),
    "duration_ms": (20, 20),
    "is_speech": (True, True),
    "overlap_action": ("drop", "drop"),
    "audio_end_ms": (700, 700),
    "response_create": (False, False),
    "played_ms": (1850, 1850),
}


@pytest.mark.parametrize(
    ("wire", "alias", "field"),
    [(wire, alias, field) for wire, names in FIELD_ALIASES.items() for alias, field in names.items()],
)
def test_a_field_is_read_under_each_of_its_names(wire: str, alias: str, field: str) -> None:
    sent, read = VALUES[field]
    required = {"audio": AUDIO} if wire == "input_audio_buffer.append" and field != "audio" else {}
    command = decode_command(json.dumps({"type": wire, **required, alias: sent}))
    assert getattr(command, field) == read


def test_the_name_of_a_field_wins_over_its_aliases() -> None:
    command = decode_command(json.dumps({"type": "playback.ack", "audio_ms": 1, "played_ms": 2}))
    assert command == AcknowledgePlayback(played_ms=2)


def test_the_format_and_rate_of_a_chunk_are_kept_under_both_spellings() -> None:
    event = {"type": "input_audio_buffer.append", "audio": AUDIO, "format": "ulaw", "input_audio_format": "pcm16"}
    assert decode_command(json.dumps(event)) == AppendAudio(audio=PCM, format="ulaw", input_audio_format="pcm16")


def test_a_detectors_probability_is_read_under_its_short_name() -> None:
    event = {"type": "input_audio_buffer.append", "audio": AUDIO, "vad": {"probability": 0.7}}
    command = decode_command(json.dumps(event))
    assert isinstance(command, AppendAudio)
    assert command.speech_verdict is True


def test_the_audio_of_an_item_is_decoded_under_both_its_names() -> None:
    content = [{"type": "input_audio", "data": AUDIO, "sample_rate": 8000}, {"type": "input_audio", "audio": AUDIO}]
    command = decode_command(json.dumps({"type": "conversation.item.create", "item": {"content": content}}))
    assert isinstance(command, CreateItem)
    assert isinstance(command.item.content, list)
    assert [part.audio for part in command.item.content] == [PCM, PCM]
    assert command.item.content[0].sample_rate_hz == 8000


def test_an_item_whose_content_is_no_list_has_none() -> None:
    command = decode_command('{"type":"conversation.item.create","item":{"type":"message","content":"hello"}}')
    assert isinstance(command, CreateItem)
    assert command.item.content is UNSET


@pytest.mark.parametrize(
    ("event", "session"),
    [
        ({"session": {"voice": "a"}}, {"voice": "a"}),
        ({"voice": "b"}, {"voice": "b"}),
        ({"session": {"voice": "a"}, "voice": "b"}, {"voice": "a"}),
        ({"session": "no object", "voice": "b"}, {"voice": "b"}),
        ({"session": None, "voice": "b"}, {"voice": "b"}),
        ({"turn_detection": None, "audio_end_ms": 2.0**64}, {"turn_detection": None, "audio_end_ms": 2.0**64}),
        ({}, {}),
    ],
)
def test_settings_stand_nested_or_at_the_top_and_nested_wins(event: dict[str, Any], session: dict[str, Any]) -> None:
    command = decode_command(json.dumps({"type": "session.update", "event_id": "evt_1", **event}))
    assert command == UpdateSession(session=session, event_id="evt_1")


# -- liberties -----------------------------------------------------------------------------------------------------


def test_unknown_fields_are_ignored() -> None:
    assert decode_command('{"type":"session.heartbeat","later":{"than":"us"}}') == Heartbeat()


def test_null_means_not_said() -> None:
    event = '{"type":"input_audio_buffer.commit","event_id":null,"final":null,"is_speech":null}'
    assert decode_command(event) == CommitInput()


def test_milliseconds_are_floored_to_whole_ones() -> None:
    assert decode_command('{"type":"playback.ack","audio_ms":1850.97}') == AcknowledgePlayback(played_ms=1850)
    assert decode_command('{"type":"playback.ack","played_ms":-0.5}') == AcknowledgePlayback(played_ms=-1)


def test_a_signal_that_means_a_command_stays_a_signal() -> None:
    command = decode_command('{"type":"turn.signal","event":"barge_in","payload":{"source":"client_vad"}}')
    assert command == SignalTurn(event="barge_in", payload={"source": "client_vad"})


def test_bytes_are_read_like_text() -> None:
    assert decode_command(b'{"type":"close"}') == CloseSession()


def test_a_picture_loses_its_data_url_prefix() -> None:
    picture = base64.b64encode(b"\xff\xd8\xff" + bytes(40)).decode()
    event = {
        "type": "input_audio_buffer.append",
        "audio": f"data:audio/pcm;base64,{AUDIO}",
        "video_frames": [f"data:image/jpeg;base64,{picture}", None],
    }
    command = decode_command(json.dumps(event))
    assert command == AppendAudio(audio=PCM, video_frames=[picture, None])


# -- mistakes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["", "{", "hello", '{"type": "session.heartbeat"', b'{"type":"\xff"}', '{"a":"\ud800"}', '{"a":"\\ud800"}']
)
def test_what_is_not_json_is_called_so(text: str | bytes) -> None:
    assert rejection(text).code == "invalid_json"


@pytest.mark.parametrize("text", ["[]", '"text"', "5", "null", "true", '[{"type":"session.heartbeat"}]'])
def test_json_that_is_no_object_is_no_event(text: str) -> None:
    error = rejection(text)
    assert (error.code, error.param) == ("bad_event", None)


@pytest.mark.parametrize("event", [{}, {"type": None}, {"type": 5}, {"type": ["session.heartbeat"]}])
def test_an_event_without_a_name_is_a_bad_one(event: dict[str, Any]) -> None:
    error = rejection(json.dumps({**event, "event_id": "evt_1"}))
    assert (error.code, error.param, error.event_id) == ("bad_event", "type", "evt_1")


@pytest.mark.parametrize(
    "name", ["session.create", "response.delta", "", "duplex_es.refused", "duplex_es.open_session"]
)
def test_an_event_of_another_name_is_unknown(name: str) -> None:
    error = rejection(json.dumps({"type": name, "event_id": "evt_1"}))
    assert (error.code, error.param, error.event_id) == ("unknown_event", "type", "evt_1")
    assert repr(name) in error.message


WRONG_FIELDS: list[tuple[dict[str, Any], str, str]] = [
    ({"type": "session.heartbeat", "event_id": 5}, "bad_event", "event_id"),
    ({"type": "session.event_ack"}, "invalid_event_ack", "server_event_seq"),
    ({"type": "session.event_ack", "server_event_seq": -1}, "invalid_event_ack", "server_event_seq"),
    ({"type": "session.event_ack", "server_event_seq": "4"}, "invalid_event_ack", "server_event_seq"),
    ({"type": "session.event_ack", "server_event_seq": True}, "invalid_event_ack", "server_event_seq"),
    ({"type": "session.resume", "incarnation": 0, "resume_token": "t"}, "invalid_session_resume", "session_id"),
    (
        {"type": "conversation.item.create", "item": {"type": "function_call_output", "call_id": "c", "output": 24}},
        "invalid_function_call_output",
        "item.output",
    ),
    (
        {"type": "session.resume", "session_id": "", "incarnation": 0, "resume_token": "t"},
        "invalid_session_resume",
        "session_id",
    ),
    (
        {"type": "session.resume", "session_id": "s", "incarnation": -1, "resume_token": "t"},
        "invalid_session_resume",
        "incarnation",
    ),
    ({"type": "input_audio_buffer.append"}, "bad_event", "audio"),
    ({"type": "input_audio_buffer.append", "audio": None}, "bad_event", "audio"),
    ({"type": "input_audio_buffer.append", "audio": 7}, "bad_event", "audio"),
    ({"type": "input_audio_buffer.append", "audio": "a==="}, "bad_audio", "audio"),
    ({"type": "input_audio_buffer.append", "data": "a b!"}, "bad_audio", "audio"),
    ({"type": "input_audio_buffer.append", "audio": AUDIO, "sample_rate_hz": 7999}, "bad_event", "sample_rate_hz"),
    ({"type": "input_audio_buffer.append", "audio": AUDIO, "sample_rate": 192001}, "bad_event", "sample_rate_hz"),
    ({"type": "input_audio_buffer.append", "audio": AUDIO, "sample_rate_hz": True}, "bad_event", "sample_rate_hz"),
    ({"type": "input_audio_buffer.append", "audio": AUDIO, "is_speech": "yes"}, "bad_event", "is_speech"),
    ({"type": "input_audio_buffer.append", "audio": AUDIO, "format": 16}, "bad_event", "format"),
    ({"type": "input_audio_buffer.append", "audio": AUDIO, "duration_ms": "20"}, "bad_event", "duration_ms"),
    ({"type": "input_audio_buffer.append", "audio": AUDIO, "duration_ms": 1e300}, "bad_event", "duration_ms"),
    (
        {"type": "input_audio_buffer.append", "audio": AUDIO, "vad": {"is_speech": 1}},
        "bad_event",
        "vad.is_speech",
    ),
    (
        {"type": "input_audio_buffer.append", "audio": AUDIO, "video_frames": ["x"]},
        "invalid_video_frames",
        "video_frames[0]",
    ),
    (
        {"type": "input_audio_buffer.append", "audio": AUDIO, "max_slice_nums": 2},
        "invalid_video_frames",
        "max_slice_nums",
    ),
    ({"type": "input_audio_buffer.commit", "final": 1}, "bad_event", "final"),
    ({"type": "input.text.append"}, "bad_event", "text"),
    ({"type": "input.text.append", "text": {}}, "bad_event", "text"),
    ({"type": "conversation.item.create"}, "bad_event", "item"),
    ({"type": "conversation.item.create", "item": []}, "bad_event", "item"),
    ({"type": "conversation.item.create", "item": {"role": 1}}, "bad_event", "item.role"),
    ({"type": "conversation.item.create", "item": {"content": [{}, 5]}}, "bad_event", "item.content[1]"),
    (
        {"type": "conversation.item.create", "item": {"content": [{"text": 5}]}},
        "bad_event",
        "item.content[0].text",
    ),
    (
        {"type": "conversation.item.create", "item": {"content": [{"audio": "a"}]}},
        "bad_audio",
        "item.content.audio",
    ),
    ({"type": "conversation.item.retrieve", "item_id": 5}, "bad_event", "item_id"),
    ({"type": "conversation.item.truncate", "item_id": "i", "audio_end_ms": "x"}, "bad_event", "audio_end_ms"),
    ({"type": "response.create", "response": "now"}, "bad_event", "response"),
    ({"type": "response.create", "response": {"metadata": {"n": 2**70}}}, "bad_event", "response.metadata.n"),
    ({"type": "session.update", "session": {"tools": [{"n": -(2**64)}]}}, "bad_event", "session.tools[0].n"),
    ({"type": "response.cancel", "response_id": ["resp_1"]}, "bad_event", "response_id"),
    ({"type": "turn.signal"}, "bad_event", "event"),
    ({"type": "turn.signal", "event": ""}, "bad_event", "event"),
    ({"type": "turn.signal", "event": "barge_in", "payload": []}, "bad_event", "payload"),
    ({"type": "playback.ack", "played_ms": "all"}, "bad_event", "played_ms"),
    ({"type": "playback.ack", "truncate": "yes"}, "bad_event", "truncate"),
]


@pytest.mark.parametrize(("event", "code", "param"), WRONG_FIELDS)
def test_a_wrong_field_is_named_with_the_code_of_its_event(event: dict[str, Any], code: str, param: str) -> None:
    error = rejection(json.dumps(event))
    assert (error.code, error.param, error.event_id) == (code, param, None)
    assert error.message.startswith(f"{param}: ")


@pytest.mark.parametrize(("event", "code", "param"), [row for row in WRONG_FIELDS if "event_id" not in row[0]])
def test_a_rejection_names_the_event_it_answers(event: dict[str, Any], code: str, param: str) -> None:
    assert rejection(json.dumps({**event, "event_id": "evt_0001"})).event_id == "evt_0001"


def test_deep_nesting_is_refused_with_its_event() -> None:
    event = {"type": "session.update", "event_id": "evt_1", "session": {"x": json.loads("[" * 80 + "]" * 80)}}
    error = rejection(json.dumps(event))
    assert (error.code, error.event_id) == ("bad_event", "evt_1")


def test_nesting_beyond_what_can_be_read_at_all_is_refused_too() -> None:
    assert rejection(f'{{"type":"session.update","session":{"[" * 100_000}').code in ("bad_event", "invalid_json")


def test_a_number_beyond_a_double_is_refused_with_its_event() -> None:
    error = rejection('{"type":"playback.ack","event_id":"evt_1","played_ms":1e999}')
    assert (error.code, error.event_id) == ("bad_event", "evt_1")


def sized(byte_count: int) -> str:
    """A valid append of exactly so many bytes."""
    frame = '{"type":"input_audio_buffer.append","event_id":"evt_1","audio":"%s","text":"%s"}'
    surplus = (byte_count - len(frame % ("", ""))) % 4
    return frame % ("A" * (byte_count - len(frame % ("", "")) - surplus), "x" * surplus)


def test_an_event_of_just_the_limit_is_taken() -> None:
    text = sized(MAX_EVENT_BYTES)
    assert len(text) == 15 * 1024 * 1024
    assert isinstance(decode_command(text), AppendAudio)


def test_one_byte_more_is_too_large_and_still_answered_by_name() -> None:
    error = rejection(sized(MAX_EVENT_BYTES + 1))
    assert (error.code, error.event_id) == ("event_too_large", "evt_1")


def test_the_limit_counts_bytes_and_not_characters() -> None:
    text = '{"type":"input.text.append","text":"%s"}' % ("é" * (MAX_EVENT_BYTES // 2))
    assert len(text) < MAX_EVENT_BYTES
    assert rejection(text).code == "event_too_large"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
FIELDS = sorted({field for command in COMMANDS.values() for field in command.__struct_fields__} | {"type"})
EVENT = st.fixed_dictionaries(
    {"type": st.sampled_from([*COMMANDS, *ALIASES]) | st.text()},
    optional={field: JSON | st.just(AUDIO) for field in FIELDS if field != "type"},
)


@given(st.text() | st.binary() | JSON.map(json.dumps))
def test_nothing_a_client_sends_raises_anything_but_a_protocol_error(text: str | bytes) -> None:
    try:
        decode_command(text)
    except ProtocolError as error:
        assert error.message


@given(EVENT)
@example({"type": "session.update", "audio_end_ms": 2.0**64})
def test_whatever_is_read_can_be_packed_into_the_log_and_comes_back(event: dict[str, Any]) -> None:
    try:
        command = decode_command(json.dumps(event))
    except ProtocolError:
        return
    said = unpack_input(*pack_input(command, 0)).said
    if event["type"] != "session.resume":
        assert said == command
    decode_command(encode_command(command))


# -- frames --------------------------------------------------------------------------------------------------------

DELTA = ResponseOutputAudioDelta(
    response_id="resp_1",
    item_id='"delta":""',
    delta=bytes(range(256)) * 30,
    format="pcm16",
    sample_rate_hz=24_000,
    metadata=OutputMetadata(session_id="s", epoch=0),
)


def test_a_frame_is_stamped_where_it_leaves() -> None:
    text = encode_frame(SessionHeartbeatAck(session_id="s"), event_id="event_1", seq=41)
    assert text == ('{"type":"session.heartbeat_ack","session_id":"s","event_id":"event_1","server_event_seq":41}')


def test_a_stamp_replaces_the_one_a_frame_already_has() -> None:
    frame = SessionHeartbeatAck(session_id="s", event_id="old", server_event_seq=1)
    assert json.loads(encode_frame(frame, event_id="new")) == {
        "type": "session.heartbeat_ack",
        "session_id": "s",
        "event_id": "new",
        "server_event_seq": 1,
    }
    assert encode_frame(frame, event_id="new", seq=2).count("server_event_seq") == 1


def test_an_unsequenced_frame_has_no_seq() -> None:
    assert "server_event_seq" not in encode_frame(SessionHeartbeatAck(session_id="s"), event_id="event_1")


def test_the_audio_of_a_delta_is_base64_exactly_as_the_encoder_writes_it() -> None:
    assert encode_frame(DELTA) == msgspec.json.encode(DELTA).decode()
    assert decode_frame(encode_frame(DELTA)) == DELTA


@given(st.text(), st.text(), st.binary())
def test_no_text_in_a_delta_can_be_taken_for_its_audio(response_id: str, event_id: str, audio: bytes) -> None:
    frame = msgspec.structs.replace(DELTA, response_id=response_id, delta=audio)
    read = json.loads(encode_frame(frame, event_id=event_id))
    assert (read["response_id"], read["event_id"]) == (response_id, event_id)
    assert base64.b64decode(read["delta"]) == audio


def test_unset_is_left_out_and_null_is_written() -> None:
    read = json.loads(encode_frame(Error.of(ProtocolError("bad_event", "type: missing"))))
    assert set(read["error"]) == {"type", "code", "message"}


def test_a_handshake_error_is_flat_and_never_stamped() -> None:
    text = encode_frame(FlatError.of(ProtocolError("config_timeout", "nothing came")))
    assert json.loads(text) == {"type": "error", "error": "nothing came", "code": "config_timeout"}
    assert encode_frame(decode_frame(text), event_id="event_1", seq=1) == text


def test_when_to_come_again_is_said_in_both_shapes_of_an_error() -> None:
    crowded = ProtocolError("duplex_session_busy", "too many", retry_after_ms=1_500).with_event_id("evt_1")
    assert json.loads(encode_frame(FlatError.of(crowded)))["retry_after_ms"] == 1_500
    assert json.loads(encode_frame(Error.of(crowded)))["error"]["retry_after_ms"] == 1_500


@pytest.mark.parametrize("text", ["", "[]", '{"type":"session.invented"}', '{"type":"error","error":5}', b"\xff"])
def test_a_text_that_is_no_frame_is_unreadable_to_a_client(text: str | bytes) -> None:
    with pytest.raises(FrameUnreadable):
        decode_frame(text)
