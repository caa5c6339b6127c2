"""JSON text ↔ commands and frames. Base64 exists on the socket's side of this module only.

Reading a command folds aliases and alternative field names, decodes audio and names the exact field that is wrong.
Whatever is returned can be packed into the log; whatever cannot is refused here. Nothing but ``ProtocolError`` is
ever raised for what a client sent.
"""

from __future__ import annotations

import math
import re
from typing import Any

import msgspec
import pybase64
from msgspec import UNSET, UnsetType

from .commands import ALIASES, COMMANDS, AppendAudio, Command
from .errors import ProtocolError
from .frames import FlatError, Frame, ResponseOutputAudioDelta
from .objects import Plain
from .wire_media import check_video_frames, decode_audio

MAX_EVENT_BYTES = 15 * 1024 * 1024
"""The largest client event, in bytes of UTF-8."""
MAX_NESTING = 64
"""How deep a client event may nest."""

FIELD_ALIASES: dict[str, dict[str, str]] = {
    "input_audio_buffer.append": {
        "delta": "audio",
        "data": "audio",
        "sample_rate": "sample_rate_hz",
        "audio_duration_ms": "duration_ms",
        "speech": "is_speech",
        "overlap": "overlap_action",
    },
    "input_audio_buffer.commit": {"audio_ms": "audio_end_ms", "create_response": "response_create"},
    "input.commit": {"audio_ms": "audio_end_ms", "create_response": "response_create"},
    "playback.ack": {"audio_ms": "played_ms"},
}
"""Other names a field may come under → its name; the name itself wins when both are there."""

_MS_FIELDS = {
    wire: tuple(field for field in struct.__struct_fields__ if field.endswith("_ms"))
    for wire, struct in COMMANDS.items()
}
_NULLABLE = frozenset({"previous_item_id", "max_slice_nums"})
_WAV_ALIASES = frozenset({"push_chunk", "input.audio.append"})
_FIELD_CODES = {"session.event_ack": "invalid_event_ack", "session.resume": "invalid_session_resume"}
_PATH_CODES = {("conversation.item.create", "item.output"): "invalid_function_call_output"}
_INT_RANGE = (-(2**63), 2**64 - 1)
_PATH = re.compile(r" - at `\$\.?(?P<path>.*)`$", re.DOTALL)
_MISSING = re.compile(r"missing required field `(?P<field>[^`]+)`")


class FrameUnreadable(Exception):
    """A text is not a frame this build knows. For clients and tools: a newer server may say more than they know."""


class _EventId(msgspec.Struct):
    event_id: str | UnsetType = UNSET


_JSON = msgspec.json.Encoder()
_READ = msgspec.json.Decoder()
_READ_EVENT_ID = msgspec.json.Decoder(_EventId)
_READ_FRAME: msgspec.json.Decoder[Frame] = msgspec.json.Decoder(Frame)
_READ_FLAT = msgspec.json.Decoder(FlatError)


# -- commands ------------------------------------------------------------------------------------------------------


def decode_command(text: str | bytes) -> Command:
    """The command in one text frame.

    Raises: ProtocolError with ``invalid_json`` (not JSON), ``event_too_large``, ``bad_event`` (no object, no ``type``,
    a field missing or wrong), ``unknown_event``, ``bad_audio``, ``invalid_video_frames``, ``invalid_event_ack`` or
    ``invalid_session_resume``; ``param`` is the dotted path of the field, ``event_id`` the client's, if readable.
    """
    event = _read_event(text)
    stated = event.get("event_id")
    event_id = stated if isinstance(stated, str) else None
    try:
        return _read_command(event)
    except ProtocolError as error:
        raise error.with_event_id(event_id) from None


def encode_command(command: Command) -> str:
    """The JSON text of a command, under its own name; for clients and tools."""
    return _JSON.encode(command).decode()


def _read_event(text: str | bytes) -> dict[str, Any]:
    """The JSON object in ``text``."""
    try:
        data = text.encode() if isinstance(text, str) else text
    except UnicodeEncodeError:
        raise ProtocolError("invalid_json", "The frame is not valid Unicode; send UTF-8 text.") from None
    if len(data) > MAX_EVENT_BYTES:
        raise ProtocolError(
            "event_too_large",
            f"The event has {len(data)} bytes; at most {MAX_EVENT_BYTES} are taken. Send audio in smaller pieces.",
            event_id=_event_id_of(data),
        )
    try:
        event = _READ.decode(data)
    except (msgspec.ValidationError, RecursionError):
        message = "The event holds a number too large or nests too deeply; simplify it."
        raise ProtocolError("bad_event", message, event_id=_event_id_of(data)) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as fault:
        raise ProtocolError("invalid_json", f"The frame is not JSON: {fault}. Send one object per frame.") from None
    if not isinstance(event, dict):
        raise ProtocolError("bad_event", "The frame is JSON but not an object; send one object per frame.")
    return event


def _event_id_of(data: bytes) -> str | None:
    """The ``event_id`` of an event that is not read otherwise."""
    try:
        event_id = _READ_EVENT_ID.decode(data).event_id
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return None if event_id is UNSET else event_id


def _read_command(event: dict[str, Any]) -> Command:
    name = event.get("type")
    if not isinstance(name, str):
        raise ProtocolError("bad_event", "type: expected the event's name, a string.", "type")
    wire = ALIASES.get(name, name)
    struct = COMMANDS.get(wire)
    if struct is None:
        raise ProtocolError("unknown_event", f"type: {_shown(name)} is not an event of this API.", "type")
    _check_plain(event)
    event["type"] = wire
    if wire == "session.update":
        _fold_update(event)
    _fold_fields(event, wire)
    if struct is AppendAudio:
        _fold_append(event, whole_file=name in _WAV_ALIASES)
    elif wire == "conversation.item.create":
        _fold_item(event)
    try:
        return msgspec.convert(event, struct)
    except msgspec.ValidationError as fault:
        raise _field_error(str(fault), wire) from None


def _fold_fields(event: dict[str, Any], wire: str) -> None:
    """Give every field its own name, floor milliseconds, and read ``null`` as not said where it means nothing."""
    for alias, field in FIELD_ALIASES.get(wire, {}).items():
        value = event.pop(alias, None)
        if value is not None and event.get(field) is None:
            event[field] = value
    for field in _MS_FIELDS[wire]:
        value = event.get(field)
        if isinstance(value, float):
            event[field] = math.floor(value)
    for field in [key for key, value in event.items() if value is None and key not in _NULLABLE]:
        del event[field]


def _fold_append(event: dict[str, Any], *, whole_file: bool) -> None:
    if "audio" not in event:
        raise ProtocolError("bad_event", "audio: missing; send the audio as a base64 string.", "audio")
    event["audio"] = decode_audio(event["audio"], param="audio")
    if whole_file and "format" not in event and "input_audio_format" not in event:
        event["format"] = "wav"
    if "video_frames" in event or "max_slice_nums" in event:
        frames = check_video_frames(event.get("video_frames", []), event.get("max_slice_nums"))
        if "video_frames" in event:
            event["video_frames"] = frames
    vad = event.get("vad")
    if isinstance(vad, dict):
        _rename(vad, "probability", "speech_probability")


def _fold_update(event: dict[str, Any]) -> None:
    """Settings may stand at the top level of the event, ``null`` ones included; a ``session`` object wins."""
    if not isinstance(event.get("session"), dict):
        event["session"] = {key: event[key] for key in event if key not in ("type", "event_id", "session")}


def _fold_item(event: dict[str, Any]) -> None:
    item = event.get("item")
    if not isinstance(item, dict):
        return
    content = item.get("content")
    if not isinstance(content, list):
        item.pop("content", None)
        return
    for part in content:
        if isinstance(part, dict):
            _rename(part, "data", "audio")
            _rename(part, "sample_rate", "sample_rate_hz")
            if part.get("audio") is not None:
                part["audio"] = decode_audio(part["audio"], param="item.content.audio")


def _rename(fields: dict[str, Any], alias: str, field: str) -> None:
    value = fields.pop(alias, None)
    if value is not None and fields.get(field) is None:
        fields[field] = value


def _check_plain(value: object, path: str = "", depth: int = 0) -> None:
    """Refuse what could be read but not be packed into the log: integers beyond 64 bits, and deep nesting."""
    if isinstance(value, str | float):
        return
    if isinstance(value, int):
        if not _INT_RANGE[0] <= value <= _INT_RANGE[1]:
            raise ProtocolError("bad_event", f"{path}: an integer beyond 64 bits; send it as a string.", path)
    elif isinstance(value, dict | list):
        if depth == MAX_NESTING:
            raise ProtocolError("bad_event", f"{path}: nested deeper than {MAX_NESTING} levels; flatten it.", path)
        if isinstance(value, dict):
            for key, inner in value.items():
                _check_plain(inner, f"{path}.{key}" if path else key, depth + 1)
        else:
            for index, inner in enumerate(value):
                _check_plain(inner, f"{path}[{index}]", depth + 1)


def _field_error(fault: str, wire: str) -> ProtocolError:
    """The error that names the field of the event ``wire`` that msgspec found wrong, and its rule."""
    match = _PATH.search(fault)
    path = match["path"].lstrip(".") if match else ""
    rule = fault[: match.start()] if match else fault
    if missing := _MISSING.search(rule):
        path = f"{path}.{missing['field']}" if path else missing["field"]
        rule = "missing"
    rule = rule.replace("`", "").replace("Expected", "expected")
    code = _PATH_CODES.get((wire, path)) or _FIELD_CODES.get(wire, "bad_event")
    return ProtocolError(code, f"{path}: {rule}. Correct this field and send the event again.", path or None)


def _shown(name: str) -> str:
    return repr(name if len(name) <= 60 else f"{name[:57]}...")


# -- frames --------------------------------------------------------------------------------------------------------


def encode_frame(frame: Frame | FlatError, *, event_id: str | None = None, seq: int | None = None) -> str:
    """The compact JSON text of a frame, with ``event_id`` and ``server_event_seq`` put on where they are given.

    What is ``UNSET`` is left out, what is ``None`` is written as ``null``. Given values replace the frame's own.
    """
    if isinstance(frame, FlatError):
        return _JSON.encode(frame).decode()
    if (event_id is not None and frame.event_id is not UNSET) or (
        seq is not None and frame.server_event_seq is not UNSET
    ):
        frame = msgspec.structs.replace(
            frame,
            event_id=frame.event_id if event_id is None else UNSET,
            server_event_seq=frame.server_event_seq if seq is None else UNSET,
        )
    text = _encode_delta(frame) if isinstance(frame, ResponseOutputAudioDelta) else _JSON.encode(frame).decode()
    stamps = "" if event_id is None else f',"event_id":{_JSON.encode(event_id).decode()}'
    if seq is not None:
        stamps += f',"server_event_seq":{seq}'
    return f"{text[:-1]}{stamps}}}" if stamps else text


def _encode_delta(frame: ResponseOutputAudioDelta) -> str:
    """As the encoder would, in a third of the time: the audio is put into the text instead of through the encoder.

    The key occurs once before any free text can: quotes inside strings are escaped.
    """
    bare = _JSON.encode(msgspec.structs.replace(frame, delta=b"")).decode()
    before, after = bare.split('"delta":""', 1)
    return f'{before}"delta":"{pybase64.b64encode_as_string(frame.delta)}"{after}'


def decode_frame(text: str | bytes) -> Frame | FlatError:
    """The frame in ``text``, for clients and tools. Raises: FrameUnreadable."""
    try:
        return _READ_FRAME.decode(text)
    except msgspec.ValidationError as fault:
        try:
            return _READ_FLAT.decode(text)
        except msgspec.MsgspecError:
            raise FrameUnreadable(str(fault)) from fault
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as fault:
        raise FrameUnreadable(str(fault)) from fault


def to_plain(frame: Frame | FlatError) -> Plain:
    """The map a frame is on the wire, audio as base64 text; for projections and tools that work on maps."""
    plain: Plain = msgspec.to_builtins(frame)
    return plain
