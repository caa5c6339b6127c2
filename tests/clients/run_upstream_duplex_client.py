"""Upstream's own ``DuplexClient``: the published contract, resume included. Nothing of its engine is loaded.

Needs the folder ``vllm_omni/clients`` of the package ``vllm-omni`` alone on the path, ``pybase64`` and ``websockets``:
see ``make clients``. The folder that holds it is named by ``VLLM_OMNI_CLIENTS``.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

from report import STEPS, Report, expect, run
from sound import paced, question_pcm

RATE_HZ = 16_000
WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "Current weather of a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


def client_library() -> Any:
    """The module ``vllm_omni.clients.duplex``. The package itself stays empty: its own would pull in the engine."""
    home = Path(os.environ["VLLM_OMNI_CLIENTS"]).resolve()
    package = types.ModuleType("vllm_omni")
    package.__path__ = [str(home / "vllm_omni")]
    sys.modules["vllm_omni"] = package
    return importlib.import_module("vllm_omni.clients.duplex")


class Ear:
    """A client's events, as it hands them out."""

    def __init__(self, client: Any, report: Report) -> None:
        self._client = client
        self._report = report
        self._news = asyncio.Event()
        self.heard: list[dict[str, Any]] = []

    async def listen(self) -> None:
        """Read events until the session ends."""
        async for event in self._client:
            self.heard.append(event.raw)
            if event.type == "error":
                self._report.validation_errors.append(f"error: {event.code}: {event.message}")
            self._news.set()

    async def until(
        self, kind: str, fits: Callable[[dict[str, Any]], bool] = lambda event: True, *, since: int = 0
    ) -> dict[str, Any]:
        """The first event of this type, among those after ``since``, that fits."""
        while True:
            for event in self.heard[since:]:
                if event["type"] == kind and fits(event):
                    return event
            self._news.clear()
            await self._news.wait()


async def converse(url: str, report: Report) -> None:
    """Two turns with playback confirmed, an interruption, a tool, a truncating confirmation, and a cut connection."""
    duplex = client_library()
    report.expected = (*STEPS, "resume")
    policy = duplex.ReconnectPolicy(max_attempts=5, backoff_s=(0.05, 0.2))
    async with duplex.DuplexClient(
        url, model="cascade", config=duplex.SessionConfig(), reconnect=policy, heartbeat_interval_s=5.0
    ) as client:
        ear = Ear(client, report)
        listening = asyncio.create_task(ear.listen())
        await client.send({"type": "session.update", "session": {"tools": [WEATHER]}})
        await ear.until("session.updated")
        expect(client.session_info["capabilities"]["supports_session_resume"] is True, str(client.session_info))
        await report.step(STEPS[0], _turn(client, ear))
        await report.step(STEPS[1], _turn(client, ear))
        await report.step(STEPS[2], _interruption(client, ear))
        await report.step(STEPS[3], _tool_call(client, ear))
        await report.step(STEPS[4], _truncation(client, ear))
        await report.step("resume", _resume(client, ear))
    listening.cancel()


async def _say(client: Any) -> None:
    async for piece in paced(question_pcm(RATE_HZ), RATE_HZ):
        await client.append_audio(piece)


async def _turn(client: Any, ear: Ear) -> str:
    since = len(ear.heard)
    await _say(client)
    done = await ear.until("response.done", since=since)
    expect(done["response"]["status"] == "completed", done["response"]["status"])
    said = await ear.until("response.output_audio_transcript.done", since=since)
    expect("42" in said["transcript"], said["transcript"])
    generated_ms = done["response"]["metadata"]["playback"]["generated_ms"]
    await client.ack_playback(generated_ms, response_id=done["response_id"])
    ledger = (await ear.until("playback.acknowledged", since=since))["event"]["playback"]
    expect(ledger["committed_ms"] == generated_ms > 1000, str(ledger))
    return f"{generated_ms / 1000:.1f} s: {said['transcript']}"


async def _interruption(client: Any, ear: Ear) -> str:
    since = len(ear.heard)
    await _say(client)
    await ear.until("response.output_audio.delta", since=since)
    await _say(client)
    cut = await ear.until("response.done", since=since)
    expect(cut["response"]["status"] == "cancelled", cut["response"]["status"])
    done = await ear.until("response.done", since=ear.heard.index(cut) + 1)
    expect(done["response"]["status"] == "completed", done["response"]["status"])
    return f"{cut['response']['status_details']['reason']}, then answered anew"


async def _tool_call(client: Any, ear: Ear) -> str:
    since = len(ear.heard)
    asked = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Weather in Paris?"}]}
    await client.send({"type": "conversation.item.create", "item": asked})
    await client.send({"type": "response.create"})
    call = await ear.until("response.function_call_arguments.done", since=since)
    expect("Paris" in call["arguments"], call["arguments"])
    output = {"type": "function_call_output", "call_id": call["call_id"], "output": "24 degrees and clear"}
    await client.send({"type": "conversation.item.create", "item": output})
    told = await ear.until(
        "response.output_audio_transcript.done", lambda event: "24" in event["transcript"], since=since
    )
    await ear.until("response.done", lambda event: event["response_id"] == told["response_id"], since=since)
    return str(told["transcript"])


async def _truncation(client: Any, ear: Ear) -> str:
    answer = [event for event in ear.heard if event["type"] == "response.done"][-1]
    since, item = len(ear.heard), answer["response"]["output"][0]
    ack = {"type": "playback.ack", "response_id": answer["response_id"], "played_ms": 300, "truncate": True}
    await client.send(ack)
    await ear.until("playback.acknowledged", lambda event: event["event"]["truncate"] is True, since=since)
    await client.send({"type": "conversation.item.retrieve", "item_id": item["id"]})
    kept = await ear.until("conversation.item.retrieved", since=since)
    shown = kept["item"]["content"][0]["transcript"]
    expect(len(shown) < len(item["content"][0]["transcript"]), shown)
    return f"kept {shown!r}"


async def _resume(client: Any, ear: Ear) -> str:
    since, token = len(ear.heard), client.resume_token
    client._ws.transport.abort()
    resumed = await ear.until("session.resumed", since=since)
    expect(client.resume_token != token, "the token is still the old one")
    spoken = await _turn(client, ear)
    seqs = [event["server_event_seq"] for event in ear.heard if "server_event_seq" in event]
    expect(seqs == sorted(set(seqs)), "a frame came twice or out of order")
    return f"generation {resumed['attachment_generation']}, then {spoken}"


if __name__ == "__main__":
    run("vllm_omni.clients.duplex", "vllm-omni", converse)
