"""The same caller on the client library: what ``DuplexClient`` hands on is what is judged."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from duplex_es.client import DuplexClient, DuplexClientError, ReconnectPolicy
from tests.support.chaos_talker import BYTES_PER_MS, WORDS, Heard, Line, Talker

POLICY = ReconnectPolicy(max_attempts=40, backoff_s=(0.1, 1.0))


class LibraryTalker(Talker):
    """Asks and hears through ``DuplexClient``, which resumes by itself; all sockets together are one line here."""

    policy = POLICY
    """How it comes back."""

    def __init__(self, number: int, urls: Sequence[str], draw: random.Random, *, first: int = 0, **habits: Any) -> None:
        super().__init__(number, urls, draw, first=first, **habits)
        self._heard_something = asyncio.Event()
        self._is_deaf = False

    async def run(self) -> None:
        """Live the whole call."""
        first = self._at % len(self.urls)
        urls = [*self.urls[first:], *self.urls[:first]]
        try:
            async with asyncio.timeout(self.limit_s), DuplexClient(urls, model="echo", reconnect=self.policy) as client:
                events = client.events()
                self.session_id, self.incarnation = str(client.session_id), client.incarnation or 0
                self.lines.append(Line(client.url, 0))
                reader = asyncio.create_task(self._read(client, events))
                microphone = asyncio.create_task(self._murmur_into(client))
                try:
                    await self._talk(client)
                    await client.close()
                    await reader
                finally:
                    reader.cancel()
                    microphone.cancel()
        except TimeoutError:
            self.told = f"nothing: still waiting after {self.limit_s:g} s, {self.standing}"
        except DuplexClientError as error:
            self.told = f"{type(error).__name__}: {error}"

    async def _read(self, client: DuplexClient, events: object) -> None:
        try:
            async for event in events:  # type: ignore[attr-defined]
                wire = dict(event.raw)
                if "event_id" in wire:  # what the library says itself has none
                    self.line.frames.append(Heard(time.monotonic(), json.dumps(wire), wire))
                    self.line.url = client.url
                    self._take(self.line.frames[-1])
                self._heard_something.set()
        finally:
            self._is_deaf = True
            self._heard_something.set()

    async def _murmur_into(self, client: DuplexClient) -> None:
        with suppress(DuplexClientError):  # the reader and the one who asks hear of it as well
            while True:
                await asyncio.sleep(self.murmur_s)
                await client.append_audio(bytes(self.murmur_ms * BYTES_PER_MS), is_speech=False)

    async def _talk(self, client: DuplexClient) -> None:
        goal: int | None = None
        while not self._is_deaf and (goal is None or self._answered < goal):
            if not self._owed:
                text = " ".join(self._draw.choice(WORDS) for _ in range(self.words))
                self.asked.append(text)
                self._owed, self._open_response = True, False
                await self._ask_library(client, text)
            while self._owed and not self._is_deaf:
                self._heard_something.clear()
                await self._heard_something.wait()
            if goal is None and self.over.is_set():
                goal = max(self.questions, self._answered + 1)

    async def _ask_library(self, client: DuplexClient, text: str) -> None:
        """Ask, once: what a broken socket swallows is the library's to say again."""
        item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
        await client.send({"type": "conversation.item.create", "item": item})
        await client.send({"type": "response.create"})

    async def _say(self, **event: object) -> None:
        """The library acknowledges by itself."""
