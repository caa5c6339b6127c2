"""A Realtime server over a real socket that hears loud and silent samples, and answers with a fixed sentence."""

from __future__ import annotations

import base64
import json
from array import array
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

SILENCE_MS = 200
ANSWER_RATE_HZ = 24_000
ANSWER_PCM = array("h", [4_000, -4_000] * 2_400).tobytes()


@dataclass
class VoiceServer:
    """What it will say, and what it was told. ``status`` is the response's, which has no end without ``ends``.

    ``refusal`` refuses the opening.
    """

    question: str = "What time is it?"
    answer: str = "It is noon."
    status: str = "completed"
    refusal: str | None = None
    answers: bool = True
    ends: bool = True
    url: str = ""
    sessions: list[list[dict[str, Any]]] = field(default_factory=list)

    def heard(self, type: str, session: int = -1) -> list[dict[str, Any]]:
        """The commands of ``type`` in one session."""
        return [command for command in self.sessions[session] if command["type"] == type]


class _Call:
    def __init__(self, server: VoiceServer, socket: ServerConnection) -> None:
        self._server = server
        self._socket = socket
        self._seq = 0
        self._silence_ms = 0.0
        self._has_speech = False
        self._items = 0
        self.commands: list[dict[str, Any]] = []

    async def run(self) -> None:
        async for message in self._socket:
            command = json.loads(message)
            self.commands.append(command)
            match command["type"]:
                case "session.update" if self._server.refusal:
                    await self._say(type="error", error={"code": self._server.refusal, "message": "no"})
                case "session.update":
                    await self._say(type="session.created", session={"id": f"sess_{len(self._server.sessions)}"})
                case "input_audio_buffer.append":
                    await self._hear(command)
                case "input_audio_buffer.commit":
                    await self._commit(wants_answer=command.get("response_create", True))
                case "playback.ack":
                    await self._number(type="playback.acknowledged")
                case "session.close":
                    await self._number(type="session.closed", reason="session_close")
                    return

    async def _hear(self, append: dict[str, Any]) -> None:
        samples = array("h", base64.b64decode(append["audio"]))
        if any(samples):
            self._has_speech, self._silence_ms = True, 0.0
        else:
            self._silence_ms += append["duration_ms"]
        if self._has_speech and self._silence_ms >= SILENCE_MS and self._server.answers:
            await self._commit(wants_answer=self.commands[0]["session"]["extra_body"]["auto_response"])

    async def _commit(self, *, wants_answer: bool) -> None:
        item_id = f"item_{self._items}"
        if self._has_speech:
            self._has_speech = False
            await self._number(type="input_audio_buffer.speech_stopped", audio_end_ms=0, item_id=item_id)
        await self._number(type="input_audio_buffer.committed", item_id=item_id)
        await self._number(
            type="conversation.item.input_audio_transcription.completed",
            item_id=item_id,
            transcript=self._server.question if self._items == 0 else "",
        )
        self._items += 1
        if wants_answer and self._items == 1:
            await self._answer()

    async def _answer(self) -> None:
        of = {"response_id": "resp_1"}
        await self._number(type="response.created", response={"id": "resp_1"}, **of)
        await self._number(
            type="response.output_audio.delta",
            delta=base64.b64encode(ANSWER_PCM).decode(),
            sample_rate_hz=ANSWER_RATE_HZ,
            **of,
        )
        await self._number(type="response.output_audio_transcript.delta", delta=self._server.answer, **of)
        if not self._server.ends:
            return
        await self._number(type="response.done", response={"id": "resp_1", "status": self._server.status}, **of)

    async def _number(self, **event: Any) -> None:
        self._seq += 1
        await self._say(server_event_seq=self._seq, **event)

    async def _say(self, **event: Any) -> None:
        await self._socket.send(json.dumps(event))


@asynccontextmanager
async def voice_server(**settings: Any) -> AsyncIterator[VoiceServer]:
    """A running server; ``url`` is where it listens."""
    subject = VoiceServer(**settings)

    async def call(socket: ServerConnection) -> None:
        each = _Call(subject, socket)
        subject.sessions.append(each.commands)
        try:
            await each.run()
        except ConnectionClosed:
            return

    async with serve(call, "127.0.0.1", 0) as listener:
        subject.url = f"ws://127.0.0.1:{listener.sockets[0].getsockname()[1]}/v1/realtime"
        yield subject
