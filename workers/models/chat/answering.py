"""A chat server's answer, streamed or whole, as a sequence of parts."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any

from duplex_es.protocol import ERRORS


class ChatRefused(Exception):
    """The server answered with an error; ``code`` is one of the wire's."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Written:
    """The next piece of text."""

    text: str


@dataclass(frozen=True, slots=True)
class Spoken:
    """The next piece of audio, base64, with its metadata as it came; ``transcript`` are the words of it, if told."""

    data: str
    metadata: object = None
    transcript: str = ""


@dataclass(frozen=True, slots=True)
class Called:
    """A whole tool call."""

    call_id: str | None
    name: str | None
    arguments: str


@dataclass(frozen=True, slots=True)
class Used:
    """What the answer cost, in tokens; ``cached`` of those ``read`` the server did not have to read again."""

    read: int | None
    written: int | None
    cached: int | None = None


@dataclass(frozen=True, slots=True)
class Other:
    """Something that is no part of an answer, as it came."""

    message: dict[str, object]


Part = Written | Spoken | Called | Used | Other


async def parts_of(lines: AsyncIterator[str]) -> AsyncIterator[Part]:
    """The parts of an answer from the lines of its body; tool calls come last, each whole.

    Raises: ChatRefused for an error object or an unknown modality, ValueError for what is no JSON.
    """
    reader, whole = _Reader(), ""
    async for line in lines:
        if not line.startswith("data:"):
            whole += line if not line.startswith(":") else ""
            continue
        data = line.removeprefix("data:").strip()
        if data == "[DONE]":
            break
        for part in reader.take(json.loads(data)):
            yield part
    if whole.lstrip().startswith("{"):
        for part in reader.take(json.loads(whole)):
            yield part
    for call in reader.calls():
        yield call


def refusal(said: object, otherwise: str) -> ChatRefused:
    """An error object as an exception; its type is the code where the wire knows it. ``otherwise`` is the message."""
    error = said.get("error", said) if isinstance(said, dict) else {}
    error = error if isinstance(error, dict) else {"message": error}
    kind = error.get("type")
    message = error.get("message")
    return ChatRefused(
        kind if isinstance(kind, str) and kind in ERRORS else "chat_error",
        message if isinstance(message, str) and message else otherwise,
    )


@dataclass(slots=True)
class _Pieces:
    """One tool call as far as it has come."""

    call_id: str | None = None
    name: str = ""
    arguments: str = ""


@dataclass(slots=True)
class _Reader:
    """Takes chunks and gives parts; keeps tool calls until they are whole."""

    pieces: dict[int, _Pieces] = field(default_factory=dict)

    def take(self, chunk: Any) -> Iterator[Part]:
        if not isinstance(chunk, dict):
            raise ValueError("a chunk is no object")
        if chunk.get("error") or chunk.get("object") == "error":
            raise refusal(chunk, "the chat server reported an error")
        modality = chunk.get("modality") or "text"
        if modality not in ("text", "audio"):
            raise ChatRefused("unsupported_response_modality", f"the chat server answers in {modality!r:.40}")
        usage = chunk.get("usage")
        if isinstance(usage, dict):
            details = usage.get("prompt_tokens_details")
            cached = _count(details.get("cached_tokens")) if isinstance(details, dict) else None
            yield Used(_count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens")), cached)
        choices = chunk.get("choices")
        if not isinstance(choices, list):
            if not isinstance(usage, dict):
                yield Other(chunk)
            return
        for choice in choices:
            if isinstance(choice, dict):
                yield from self._choice(choice, chunk, modality)

    def _choice(self, choice: dict[str, Any], chunk: dict[str, Any], modality: str) -> Iterator[Part]:
        said = choice.get("delta") or choice.get("message") or {}
        metadata = next((place["audio_metadata"] for place in (said, choice, chunk) if "audio_metadata" in place), None)
        content = said.get("content")
        if isinstance(content, str) and content:
            yield Spoken(content, metadata) if modality == "audio" else Written(content)
        audio = said.get("audio")
        if isinstance(audio, dict):
            inner = audio.get("audio_metadata", metadata)
            spoken = Spoken(audio.get("data") or "", inner, audio.get("transcript") or "")
            if spoken.data or spoken.transcript:
                yield spoken
        for place, call in enumerate(said.get("tool_calls") or []):
            self._call(place, call)

    def _call(self, place: int, call: dict[str, Any]) -> None:
        pieces = self.pieces.setdefault(call.get("index", place), _Pieces())
        function = call.get("function") or {}
        pieces.call_id = call.get("id") or pieces.call_id
        pieces.name += function.get("name") or ""
        pieces.arguments += function.get("arguments") or ""

    def calls(self) -> Iterator[Called]:
        for index in sorted(self.pieces):
            pieces = self.pieces[index]
            yield Called(pieces.call_id, pieces.name or None, pieces.arguments or "{}")


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
