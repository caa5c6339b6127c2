"""A turn as a chat request: history, speech and settings in the words of ``/chat/completions``."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from duplex_es.model import HistoryItem

from ..memory import SPEECH_RATE_HZ
from .sound import wav_file

SESSION_KEYS = frozenset(
    {
        "auto_response",
        "full_duplex",
        "native_duplex",
        "minicpmo45_native_duplex",
        "force_listen_count",
        "duplex_initial_user_text",
        "ref_audio",
        "tts_ref_audio",
        "return_stage_metrics",
        "duplex_control_timeout_s",
        "runtime_control_timeout_s",
        "overlap_policy",
        "overlap_short_ack_ms",
        "overlap_barge_in_ms",
        "overlap_silence_rms",
        "playback_commit_policy",
        "model",
        "messages",
        "stream",
    }
)
"""What ``extra_body`` says to the session, or what only this module may say; the rest is the client's to pass on."""


@dataclass(frozen=True, slots=True)
class Wish:
    """How an answer is wanted. ``modalities`` are the client's; ``None`` elsewhere leaves it to the server."""

    instructions: str | None = None
    modalities: tuple[str, ...] = ("text", "audio")
    voice: str | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    tools: tuple[dict[str, object], ...] = ()
    tool_choice: str | Mapping[str, object] | None = None
    extra_body: Mapping[str, object] | None = None


def request_body(
    model: str, history: Iterable[HistoryItem], speech: Mapping[str, bytes], wish: Wish, *, audio_part: str
) -> dict[str, Any]:
    """The request for one answer. ``speech`` holds mono int16 at 16 kHz by item: a spoken item goes as it was said."""
    body: dict[str, Any] = {
        **{key: value for key, value in (wish.extra_body or {}).items() if key not in SESSION_KEYS},
        "model": model,
        "stream": True,
        "stream_options": {"include_usage": True},
        "modalities": ["text", "audio"] if "audio" in wish.modalities else ["text"],
        "messages": [
            *([{"role": "system", "content": wish.instructions}] if wish.instructions else []),
            *(said for item in history if (said := _message(item, speech.get(item.item_id), audio_part)) is not None),
        ],
    }
    if "audio" in wish.modalities:
        body["audio"] = {**({"voice": wish.voice} if wish.voice else {}), "format": "pcm16"}
    if wish.temperature is not None:
        body["temperature"] = wish.temperature
    if wish.max_tokens is not None:
        body["max_tokens"] = wish.max_tokens
    if wish.tools:
        body["tools"] = [_tool(tool) for tool in wish.tools]
        if wish.tool_choice is not None:
            body["tool_choice"] = wish.tool_choice if isinstance(wish.tool_choice, str) else _tool(wish.tool_choice)
    return body


def _message(item: HistoryItem, pcm: bytes | None, audio_part: str) -> dict[str, Any] | None:
    if item.role == "tool":
        return {"role": "tool", "tool_call_id": item.call_id or "", "content": item.text}
    if item.role == "assistant" and item.call_id is not None:
        call = {"id": item.call_id, "type": "function", "function": {"name": item.name or "", "arguments": item.text}}
        return {"role": "assistant", "content": None, "tool_calls": [call]}
    if pcm:
        written = [{"type": "text", "text": item.text}] if item.text else []
        return {"role": item.role, "content": [_speech(pcm, audio_part), *written]}
    return {"role": item.role, "content": item.text} if item.text else None


def _speech(pcm: bytes, audio_part: str) -> dict[str, Any]:
    data = b64encode(wav_file(pcm, SPEECH_RATE_HZ)).decode()
    if audio_part == "audio_url":
        return {"type": "audio_url", "audio_url": {"url": f"data:audio/wav;base64,{data}"}}
    return {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}


def _tool(tool: Mapping[str, object]) -> dict[str, object]:
    """A session's tool is flat, a request's is nested; one that is nested already stays as it is."""
    if "function" in tool:
        return dict(tool)
    return {"type": "function", "function": {key: value for key, value in tool.items() if key != "type"}}
