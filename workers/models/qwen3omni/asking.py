"""A turn as the engine is asked it: conversation, sounds and settings, in plain values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from duplex_es.model import Generate, HistoryItem, ModelRefused, OpenModel, ReconfigureModel

from ..cards import RUNTIME

VOICES = ("Ethan", "Chelsie", "Aiden")
RANGES: dict[str, tuple[type, float, float]] = {
    "temperature": (float, 0.0, 2.0),
    "top_p": (float, 0.0, 1.0),
    "top_k": (int, 1, 1000),
    "repetition_penalty": (float, 0.5, 2.0),
    "max_tokens": (int, 1, 1_000_000),
}
"""What a session may say of how words are drawn, in ``extra_body``; all else there is not for this model."""


@dataclass(frozen=True, slots=True)
class Wish:
    """How answers are wanted. ``seed`` is the client's own, if it named one."""

    instructions: str | None = None
    aloud: bool = True
    voice: str | None = None
    tools: tuple[dict[str, object], ...] = ()
    settings: Mapping[str, float] = field(default_factory=dict)
    seed: int | None = None


def wish_of(request: OpenModel) -> Wish:
    """What a session asks for. Raises: ModelRefused for what cannot be served."""
    if request.voice is not None and request.voice.lower() not in map(str.lower, VOICES):
        message = f"session.voice: {request.voice!r:.60} is not one of {', '.join(VOICES)}."
        raise ModelRefused(RUNTIME, message, "session.voice")
    settings = {key: _checked(key, request.extra_body[key]) for key in RANGES if key in request.extra_body}
    if request.temperature is not None:
        settings["temperature"] = request.temperature
    seed = request.extra_body.get("seed")
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int)):
        raise ModelRefused(RUNTIME, "session.extra_body.seed must be a whole number.", "session.extra_body.seed")
    return Wish(
        instructions=request.instructions,
        aloud="audio" in request.modalities,
        voice=request.voice,
        tools=request.tools,
        settings=settings,
        seed=seed,
    )


def _checked(key: str, value: object) -> float:
    kind, least, most = RANGES[key]
    is_number = isinstance(value, int if kind is int else int | float) and not isinstance(value, bool)
    if not is_number or not least <= value <= most:  # type: ignore[operator]
        param = f"session.extra_body.{key}"
        number = "a whole number" if kind is int else "a number"
        raise ModelRefused(RUNTIME, f"{param} must be {number} from {least:g} to {most:g}.", param)
    return value  # type: ignore[return-value]


def rewished(before: Wish, request: ReconfigureModel | Generate) -> Wish:
    """``before`` as a session's new settings have it, or as one answer overrides it."""
    settings = dict(before.settings)
    if request.temperature is not None:
        settings["temperature"] = request.temperature
    if isinstance(request, ReconfigureModel):
        instructions, voice, tools = request.instructions, request.voice, request.tools
    else:
        if request.max_output_tokens is not None:
            settings["max_tokens"] = request.max_output_tokens
        instructions = before.instructions if request.instructions is None else request.instructions
        voice = request.voice or before.voice
        tools = before.tools if request.tools is None else request.tools
        tools = () if request.tool_choice == "none" else tools
    return Wish(instructions, "audio" in request.modalities, voice, tools, settings, before.seed)


def turn_of(
    history: Iterable[HistoryItem], speech: Mapping[str, bytes], wish: Wish, *, session_id: str, seed: str, voice: str
) -> tuple[dict[str, Any], list[bytes]]:
    """What the engine is asked, and the sounds that it refers to. ``speech`` is int16 at 16 kHz by item.

    ``seed`` names the turn's dice where the client named none, ``voice`` speaks where the session names none.
    """
    messages: list[dict[str, Any]] = []
    sounds: list[bytes] = []
    for item in history:
        message: dict[str, Any] = {"role": item.role, "text": item.text}
        if item.role == "assistant" and item.call_id is not None:
            message["call"] = item.name or ""
        pcm = speech.get(item.item_id) if item.role == "user" else None
        if pcm:
            message["sound"] = len(sounds)
            sounds.append(pcm)
        if item.text or pcm or item.call_id:
            messages.append(message)
    asked = {
        "session_id": session_id,
        "instructions": wish.instructions,
        "messages": messages,
        "tools": [_tool(tool) for tool in wish.tools],
        "settings": dict(wish.settings),
        "aloud": wish.aloud,
        "voice": wish.voice or voice,
        "seed": seed if wish.seed is None else str(wish.seed),
    }
    return asked, sounds


def _tool(tool: Mapping[str, object]) -> dict[str, object]:
    """A session's tool is flat, the model was shown nested ones; one that is nested already stays as it is."""
    if "function" in tool:
        return dict(tool)
    return {"type": "function", "function": {key: value for key, value in tool.items() if key != "type"}}
