"""A chat server over real sockets that says what a test puts in its mouth, and keeps what it was asked."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

RATE_HZ = 24_000
server_dies = object()
"""In an answer: the server is gone there, in the middle of its stream."""


@dataclass
class ChatServer:
    """``script`` holds one answer per request, the last one for all that follow.

    An answer is a list of chunks (maps; ``"[DONE]"`` is added), a number of seconds to wait or ``server_dies``
    among them, or a ``Response`` to give instead.
    """

    script: list[list[Any] | Response] = field(default_factory=lambda: [[text_chunk("Hello.")]])
    asked: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    cut: int = 0
    url: str = ""

    async def answer(self, request: Request) -> Response:
        """One request, answered by the next of the script."""
        self.asked.append(await request.json())
        self.keys.append(request.headers.get("authorization"))
        answer = self.script[min(len(self.asked), len(self.script)) - 1]
        if isinstance(answer, Response):
            return answer
        return StreamingResponse(self._stream(answer), media_type="text/event-stream")

    async def _stream(self, chunks: list[Any]) -> AsyncIterator[bytes]:
        try:
            for chunk in chunks:
                if chunk is server_dies:
                    raise ConnectionResetError("the server died")
                if isinstance(chunk, int | float):
                    await asyncio.sleep(chunk)
                else:
                    data = chunk if isinstance(chunk, str) else json.dumps(chunk)
                    yield f"data: {data}\n\n".encode()
            yield b"data: [DONE]\n\n"
        except asyncio.CancelledError:
            self.cut += 1
            raise


@contextlib.asynccontextmanager
async def chat_server(*script: list[Any] | Response) -> AsyncIterator[ChatServer]:
    """A server with this script, listening until the block ends."""
    server = ChatServer(list(script)) if script else ChatServer()
    app = Starlette(routes=[Route("/v1/chat/completions", server.answer, methods=["POST"])])
    listening = socket.create_server(("127.0.0.1", 0))
    server.url = f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
    running = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off", timeout_graceful_shutdown=1))
    running.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    task = asyncio.create_task(running.serve(sockets=[listening]))
    try:
        yield server
    finally:
        running.should_exit = True
        await asyncio.wait_for(task, 30)
        listening.close()


def text_chunk(text: str, **more: Any) -> dict[str, Any]:
    """A streamed piece of text."""
    return {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": text}}], **more}


def sound(ms: int, rate_hz: int = RATE_HZ, channels: int = 1) -> bytes:
    """A ramp, so that a lost or doubled sample is seen."""
    frames = ms * rate_hz // 1000
    return np.repeat((np.arange(frames) % 30_000).astype("<i2"), channels).tobytes()


def metadata(pcm: bytes, rate_hz: int = RATE_HZ, *, format: str = "pcm", channels: int = 1) -> dict[str, Any]:
    """What the encoder says of ``pcm``."""
    frames = len(pcm) // 2 // channels
    return {"format": format, "sample_rate_hz": rate_hz, "frame_count": frames, "channels": channels}


def audio_chunk(pcm: bytes, said: dict[str, Any] | None) -> dict[str, Any]:
    """A streamed piece of audio, as an omni server sends it."""
    delta = {"content": base64.b64encode(pcm).decode()}
    choice = {"index": 0, "delta": delta, **({"audio_metadata": said} if said else {})}
    return {"object": "chat.completion.chunk", "modality": "audio", "choices": [choice]}


def json_answer(body: Any, status: int = 200) -> Response:
    """An answer that is not streamed."""
    return JSONResponse(body, status_code=status)
