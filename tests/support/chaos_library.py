"""The same caller on the client library: what ``DuplexClient`` hands on is what is judged."""

from __future__ import annotations

import asyncio
import json
import time

from duplex_es.client import DuplexClient, DuplexClientError, ReconnectPolicy
from tests.support.chaos_talker import LIMIT_S, WORDS, Heard, Line, Talker

POLICY = ReconnectPolicy(max_attempts=40, backoff_s=(0.1, 1.0))


class LibraryTalker(Talker):
    """Asks and hears through ``DuplexClient``, which resumes by itself; all sockets together are one line here."""

    async def run(self) -> None:
        """Live the whole call."""
        first = self._at % len(self.urls)
        urls = [*self.urls[first:], *self.urls[:first]]
        try:
            async with asyncio.timeout(LIMIT_S), DuplexClient(urls, model="echo", reconnect=POLICY) as client:
                events = client.events()
                self.session_id, self.incarnation = str(client.session_id), client.incarnation or 0
                self.lines.append(Line(client.url, 0))
                reader = asyncio.create_task(self._read(client, events))
                try:
                    await self._talk(client)
                    await client.close()
                    await reader
                finally:
                    reader.cancel()
        except TimeoutError:
            self.told = f"nothing: still waiting after {LIMIT_S:g} s, {self.standing}"
        except DuplexClientError as error:
            self.told = f"{type(error).__name__}: {error}"

    async def _read(self, client: DuplexClient, events: object) -> None:
        async for event in events:  # type: ignore[attr-defined]
            wire = dict(event.raw)
            if "event_id" in wire:  # what the library says itself has none
                self.line.frames.append(Heard(time.monotonic(), json.dumps(wire), wire))
                self.line.url = client.url
                self._take(self.line.frames[-1])
            self._heard_something.set()

    @property
    def _heard_something(self) -> asyncio.Event:
        if not hasattr(self, "_something"):
            self._something = asyncio.Event()
        return self._something

    async def _talk(self, client: DuplexClient) -> None:
        goal: int | None = None
        while goal is None or self._answered < goal:
            if not self._owed:
                text = " ".join(self._draw.choice(WORDS) for _ in range(self.words))
                self.asked.append(text)
                self._owed, self._open_response = True, False
                await self._ask_library(client, text)
            await self._answer_or_doubt(client)
            if goal is None and self.over.is_set():
                goal = max(self.questions, self._answered + 1)

    async def _answer_or_doubt(self, client: DuplexClient) -> None:
        """Return when the answer is over; ask again when none began for long, as the question may be lost."""
        waited_s = 0.0
        while self._owed:
            self._heard_something.clear()
            try:
                async with asyncio.timeout(0.5):
                    await self._heard_something.wait()
                waited_s = 0.0
            except TimeoutError:
                waited_s += 0.5
            if waited_s >= 2.0 and not self._open_response:
                waited_s = 0.0
                await self._ask_library(client, self.asked[-1])

    async def _ask_library(self, client: DuplexClient, text: str) -> None:
        part = {"type": "input_text", "text": text}
        item = {"type": "message", "role": "user", "content": [part]}
        for event in ({"type": "conversation.item.create", "item": item}, {"type": "response.create"}):
            try:
                await client.send(event)
            except DuplexClientError:
                await asyncio.sleep(0.05)

    async def _say(self, **event: object) -> None:
        """The library acknowledges by itself."""
