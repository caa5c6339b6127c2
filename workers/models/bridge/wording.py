"""What a session asks for, in the words of the wire."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence

from msgspec import UNSET

from duplex_es.model import Generate, HistoryItem, OpenModel, ReconfigureModel
from duplex_es.protocol import AppendAudio, CreateItem, CreateResponse, UpdateSession
from duplex_es.protocol.audio import PCM_F32LE

from ..pcm import floats_of, int16_bytes
from .options import BridgeOptions
from .past import message_item
from .presets import Preset

Settings = OpenModel | ReconfigureModel


def opening(request: OpenModel, options: BridgeOptions, preset: Preset, *, ends_turns: bool) -> UpdateSession:
    """The settings that a server's session begins with. It answers by itself where the client lets it."""
    extra = dict(request.extra_body)
    if options.native_duplex:
        extra.setdefault("native_duplex", True)
    session: dict[str, object] = {
        **_settings(request, ends_turns=ends_turns),
        "input_audio_format": preset.encoding,
        "output_audio_format": "pcm16",
        "audio": {
            "input": {"sample_rate_hz": preset.input_rate_hz},
            "output": {"sample_rate_hz": preset.output_rate_hz},
        },
        "playback_commit_policy": "commit_all_on_done",
    }
    if options.model:
        session["model"] = options.model
    if request.ref_audio:
        session["ref_audio"] = request.ref_audio
    if extra:
        session["extra_body"] = extra
    return UpdateSession(session=session)


def changed(request: ReconfigureModel, before: Settings, *, ends_turns: bool, event_id: str) -> UpdateSession:
    """Settings that hold from now on; of ``extra_body`` what was another one ``before``."""
    session = _settings(request, ends_turns=ends_turns)
    known, now = before.extra_body, request.extra_body
    if extra := {key: value for key, value in now.items() if key not in known or known[key] != value}:
        session["extra_body"] = extra
    return UpdateSession(session=session, event_id=event_id)


def _settings(request: Settings, *, ends_turns: bool) -> dict[str, object]:
    session: dict[str, object] = {"modalities": list(request.modalities), "overlap_policy": request.overlap_policy}
    for name in ("instructions", "voice", "temperature"):
        value = getattr(request, name)
        if value is not None:
            session[name] = value
    if request.tools:
        session["tools"] = list(request.tools)
    if request.turn_detection is not None and ends_turns:
        session["turn_detection"] = request.turn_detection
    return session


def append(
    pcm: bytes,
    encoding: str,
    *,
    is_speech: bool | None,
    force_listen: bool,
    event_id: str,
    frames: Sequence[bytes] = (),
) -> AppendAudio:
    """Caller audio (float32) and the pictures with it, as the server takes them."""
    audio = pcm[: len(pcm) - len(pcm) % 4] if encoding == PCM_F32LE else int16_bytes(floats_of(pcm))
    return AppendAudio(
        audio=audio,
        is_speech=UNSET if is_speech is None else is_speech,
        force_listen=True if force_listen else UNSET,
        video_frames=[b64encode(frame).decode() for frame in frames] or UNSET,
        event_id=event_id,
    )


def asking(request: Generate, event_id: str) -> CreateResponse:
    """An answer asked for, with what it overrides."""
    response: dict[str, object] = {"modalities": list(request.modalities)}
    for name in ("instructions", "voice", "temperature", "max_output_tokens", "tool_choice"):
        value = getattr(request, name)
        if value is not None:
            response[name] = value
    if request.tools is not None:
        response["tools"] = list(request.tools)
    return CreateResponse(response=response, event_id=event_id)


def untold(history: Sequence[HistoryItem], told_item: str | None) -> list[CreateItem]:
    """What was typed since ``told_item``: the server has heard everything else itself, or said it."""
    names = [entry.item_id for entry in history]
    after = names.index(told_item) + 1 if told_item in names else 0
    if told_item is not None and told_item not in names:
        # It was deleted: what is certainly new is what was typed last.
        after = len(history)
        while after and _is_typed(history[after - 1]):
            after -= 1
    return [message_item(entry) for entry in history[after:] if _is_typed(entry)]


def _is_typed(entry: HistoryItem) -> bool:
    return entry.role in ("user", "system") and not entry.spoken and bool(entry.text)
