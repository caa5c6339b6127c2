"""Any OpenAI-compatible chat server as the mind: streams its answer sentence by sentence, tool calls included."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import httpx

from ...speech.sentences import take_sentences
from .scene import Call, Counted, Line, Part, Say, Scene

FIRST_BYTE_S = 10.0
IDLE_S = 30.0
VOICE_RULE = "You are speaking aloud: answer in one to three short sentences, without lists, symbols or markup."


class ChatFailed(Exception):
    """The server could not be reached, refused, or broke off before it said anything."""


class ChatServer:
    """One server and model; a connection pool shared by all sessions of a worker."""

    def __init__(
        self, url: str, model: str, key: str | None = None, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        """``url`` is the API's root, with or without ``/chat/completions`` (``http://host:8000/v1``)."""
        self._url = url if url.rstrip("/").endswith("/chat/completions") else f"{url.rstrip('/')}/chat/completions"
        self._model = model
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        timeout = httpx.Timeout(IDLE_S, connect=FIRST_BYTE_S)
        self._client = httpx.AsyncClient(headers=headers, timeout=timeout, transport=transport)

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()

    async def reply(self, scene: Scene) -> AsyncGenerator[Part, None]:
        """The answer, a sentence at a time as it arrives, its tool calls, and its tokens if the server counts them.

        Raises: ChatFailed before the first.
        """
        pending, calls, spoke, counted = "", _Calls(), False, None
        try:
            async with self._client.stream("POST", self._url, json=self._body(scene)) as response:
                if response.status_code != httpx.codes.OK:
                    detail = (await response.aread())[:200].decode("utf-8", "replace")
                    raise ChatFailed(f"{self._url} answered {response.status_code}: {detail}")
                async for chunk in _chunks(response):
                    counted = _counted(chunk.get("usage")) or counted
                    for delta in _deltas(chunk):
                        calls.add(delta.get("tool_calls"))
                        sentences, pending = take_sentences(pending + str(delta.get("content") or ""))
                        for sentence in sentences:
                            spoke = True
                            yield Say(sentence)
        except (httpx.HTTPError, ValueError) as error:
            if not spoke and not pending.strip():
                raise ChatFailed(f"{type(error).__name__}: {error}") from error
        if pending.strip():
            yield Say(pending)
        for call in calls.finished():
            yield call
        if counted is not None:
            yield counted

    def _body(self, scene: Scene) -> dict[str, Any]:
        system = " ".join(text for text in (scene.instructions, VOICE_RULE) if text)
        body: dict[str, Any] = {
            "model": self._model,
            "stream": True,
            "stream_options": {"include_usage": True},
            "messages": [
                {"role": "system", "content": system},
                *(_message(line) for line in scene.past if line.text or line.call_id),
                *([{"role": "user", "content": scene.utterance}] if scene.utterance else []),
            ],
        }
        if scene.temperature is not None:
            body["temperature"] = scene.temperature
        if scene.max_tokens is not None:
            body["max_tokens"] = scene.max_tokens
        if scene.tools:
            body["tools"] = [
                {
                    "type": "function",
                    "function": {"name": t.name, "description": t.description, "parameters": t.parameters},
                }
                for t in scene.tools
            ]
        return body


def _message(line: Line) -> dict[str, Any]:
    if line.role == "tool":
        return {"role": "tool", "tool_call_id": line.call_id or "", "content": line.text}
    if line.role == "assistant" and line.call_id is not None:
        function = {"name": line.name or "", "arguments": line.text}
        call = {"id": line.call_id, "type": "function", "function": function}
        return {"role": "assistant", "content": None, "tool_calls": [call]}
    return {"role": line.role, "content": line.text}


async def _chunks(response: httpx.Response) -> AsyncIterator[dict[str, Any]]:
    """The objects of a server-sent stream, or the one object of a server that does not stream."""
    whole = ""
    async for line in response.aiter_lines():
        if not line.startswith("data:"):
            whole += line
            continue
        data = line.removeprefix("data:").strip()
        if data == "[DONE]":
            return
        yield json.loads(data)
    if whole.lstrip().startswith("{"):
        yield json.loads(whole)


def _deltas(chunk: dict[str, Any]) -> list[dict[str, Any]]:
    return [choice.get("delta") or choice.get("message") or {} for choice in chunk.get("choices") or []]


def _counted(usage: Any) -> Counted | None:
    if not isinstance(usage, dict):
        return None
    counts = [usage.get(name) for name in ("prompt_tokens", "completion_tokens")]
    read, made = (count if isinstance(count, int) else 0 for count in counts)
    return Counted(read, made)


class _Calls:
    """Puts tool calls together from the pieces they arrive in."""

    def __init__(self) -> None:
        self._pieces: dict[int, dict[str, str]] = {}

    def add(self, deltas: Any) -> None:
        for position, delta in enumerate(deltas or []):
            piece = self._pieces.setdefault(delta.get("index", position), {"name": "", "arguments": ""})
            function = delta.get("function") or {}
            piece["name"] += function.get("name") or ""
            piece["arguments"] += function.get("arguments") or ""

    def finished(self) -> list[Call]:
        pieces = (self._pieces[index] for index in sorted(self._pieces))
        return [Call(piece["name"], piece["arguments"] or "{}") for piece in pieces if piece["name"]]
