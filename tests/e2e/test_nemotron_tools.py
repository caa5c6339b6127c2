"""A call whose model uses a tool, through gateway, log, worker and client; the worker is killed in the middle of it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from duplex_es.client import AudioDelta, DuplexClient, DuplexEvent, ReconnectPolicy
from duplex_es.client.presets.nemotron_voicechat import MODEL, create_duplex_session_config
from tests.support.nemotron_worker import ToyDeployment
from tests.support.processes import StoreProcess
from tests.support.toy_nemotron import CALL, SAID, SAY, frame
from tests.support.toy_talker import sound_of

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

FRAME_S = 0.04
PATIENCE_S = 60.0
TOOL = {"type": "function", "name": "weather", "description": "How it is.", "parameters": {"type": "object"}}
OUTPUT = '{"c": 21, "wind": "north north west, and rather strong in the evening"}'
ANSWER = f"The answer is [{OUTPUT}]. "


class Phone:
    """One caller with an open microphone: it says a frame of 20 ms every 40 ms, a command where one waits."""

    def __init__(self, client: DuplexClient) -> None:
        self.client = client
        self.commands: deque[int] = deque()
        self.heard: list[DuplexEvent] = []
        self._news = asyncio.Event()

    async def speak(self) -> None:
        clock = asyncio.get_running_loop().time
        due_s = clock()
        while True:
            command = self.commands.popleft() if self.commands else 0
            await self.client.append_audio(frame(command))
            due_s += FRAME_S
            await asyncio.sleep(max(0.0, due_s - clock()))

    async def listen(self) -> None:
        async for event in self.client.events():
            self.heard.append(event)
            self._news.set()

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not holds():
                self._news.clear()
                await self._news.wait()

    def of(self, kind: str) -> list[DuplexEvent]:
        return [event for event in self.heard if event.type == kind]

    @property
    def words(self) -> str:
        return "".join(event.raw["delta"] for event in self.of("response.output_audio_transcript.delta"))

    @property
    def sound(self) -> bytes:
        return b"".join(event.audio for event in self.heard if isinstance(event, AudioDelta))

    async def answer(self, call_id: str) -> None:
        item = {"type": "function_call_output", "call_id": call_id, "output": OUTPUT}
        await self.client.send({"type": "conversation.item.create", "item": item})


@asynccontextmanager
async def phoning(url: str) -> AsyncIterator[Phone]:
    config = create_duplex_session_config(instructions="Be brief.", tools=[TOOL])
    async with DuplexClient(url, model=MODEL, config=config, reconnect=ReconnectPolicy()) as client:
        phone = Phone(client)
        tasks = [asyncio.create_task(phone.speak()), asyncio.create_task(phone.listen())]
        yield phone
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


@pytest.mark.parametrize("killed", ["never", "while it speaks", "while the tool runs", "while the output is told"])
async def test_a_tool_is_called_once_and_answered_whenever_the_worker_dies(
    own_valkey: StoreProcess, killed: str
) -> None:
    with ToyDeployment(own_valkey.url) as deployment:
        async with phoning(deployment.urls[0]) as phone:

            def kill(now: str) -> None:
                if now == killed:
                    deployment.workers[0].process.kill()

            deployment.add_worker().wait_until_ready()
            phone.commands += [SAY]
            await phone.until(lambda: len(phone.of("response.output_audio.delta")) > 2)
            kill("while it speaks")
            await phone.until(lambda: phone.words == SAID and len(phone.sound) == len(sound(SAID)))
            phone.commands += [CALL]
            await phone.until(lambda: bool(phone.of("response.function_call_arguments.done")))
            call_id = phone.of("response.function_call_arguments.done")[0].raw["call_id"]
            kill("while the tool runs")
            await phone.answer(call_id)
            await phone.until(lambda: any(is_output(event) for event in phone.of("conversation.item.added")))
            kill("while the output is told")
            await phone.until(lambda: phone.words == SAID + ANSWER)
            await phone.until(lambda: [event.raw["response"]["status"] for event in speech(phone)] == ["completed"] * 2)

    assert phone.sound == sound(SAID) + sound(ANSWER)
    (made,) = phone.of("response.function_call_arguments.done")
    assert (made.raw["call_id"], made.raw["arguments"]) == (call_id, '{"city": "Bern"}')
    assert phone.of("error") == []
    seqs = [event.server_event_seq for event in phone.heard if event.server_event_seq]
    assert seqs == list(range(seqs[0], seqs[0] + len(seqs)))


def sound(text: str) -> bytes:
    return b"".join(map(sound_of, text.split()))


def is_output(event: DuplexEvent) -> bool:
    return bool(event.raw["item"]["type"] == "function_call_output")


def speech(phone: Phone) -> list[DuplexEvent]:
    """The responses that are over, but for the call, which is one of its own."""
    return [
        event
        for event in phone.of("response.done")
        if all(item["type"] != "function_call" for item in event.raw["response"]["output"])
    ]
