"""The official ``openai`` client, unmodified, holds a typed and a spoken turn with ``cascade``."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import numpy as np
import pytest
import soxr
from openai import AsyncOpenAI

from tests.support.services import Deployment
from tests.support.talking import loudness, question_pcm

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


def client_of(deployment: Deployment) -> AsyncOpenAI:
    """The stock client, pointed at the deployment's first gateway."""
    websocket = deployment.urls[0].removesuffix("/realtime")
    return AsyncOpenAI(api_key="none", base_url=websocket.replace("ws", "http", 1), websocket_base_url=websocket)


async def answer_of(connection: Any) -> tuple[list[Any], bytes]:
    """Every event up to the end of the next response, and its audio."""
    events, audio = [], b""
    async with asyncio.timeout(60):
        async for event in connection:
            events.append(event)
            if event.type == "response.output_audio.delta":
                audio += base64.b64decode(event.delta)
            if event.type == "response.done":
                return events, audio
    raise AssertionError("the connection ended before the response did")


async def test_a_typed_turn(cascade: Deployment):
    async with client_of(cascade).realtime.connect(model="cascade") as connection:
        created = await connection.recv()
        await connection.conversation.item.create(
            item={
                "type": "message",
                "role": "user",
                "content": [{"type": "input_text", "text": "Hello, my name is Martin."}],
            }
        )
        await connection.response.create()
        events, audio = await answer_of(connection)

    assert created.type == "session.created"
    assert "Martin" in "".join(e.delta for e in events if e.type == "response.output_audio_transcript.delta")
    assert loudness(audio) > 0.01
    assert events[-1].response.status == "completed"


async def test_a_spoken_turn(cascade: Deployment):
    question = soxr.resample(np.frombuffer(question_pcm(), dtype="<i2"), 16_000, 24_000)
    pcm = question.astype("<i2").tobytes() + bytes(2 * 24_000)
    async with client_of(cascade).realtime.connect(model="cascade") as connection:
        await connection.session.update(
            session={
                "type": "realtime",
                "audio": {"input": {"format": {"type": "audio/pcm", "rate": 24_000}}},
            }
        )
        for at in range(0, len(pcm), 4800):
            await connection.input_audio_buffer.append(audio=base64.b64encode(pcm[at : at + 4800]).decode())
        events, audio = await answer_of(connection)

    heard = [e for e in events if e.type == "conversation.item.input_audio_transcription.completed"]
    assert len(heard) == 1 and "martin" in heard[0].transcript.lower()
    assert loudness(audio) > 0.01
    assert events[-1].response.status == "completed"
