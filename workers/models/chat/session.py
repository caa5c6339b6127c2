"""One caller of a chat server: turns in, one request for each answer."""

from __future__ import annotations

import asyncio
import functools
import json
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx

from duplex_es.model import (
    Emit,
    EndTurn,
    Generate,
    HistoryItem,
    ModelHeardTurn,
    OpenModel,
    ReconfigureModel,
)

from ..agenda import Agenda
from ..asked import AskedSession
from ..floor import Floor
from .answering import ChatRefused, parts_of, refusal
from .asking import Wish, request_body
from .options import ChatOptions
from .senses import RATE_HZ as VOICE_RATE_HZ
from .senses import Senses
from .sound import SoundUnusable
from .telling import Telling

SHOWN_CHARS = 200
RETRY_S = 0.25
AGAIN_STATUS = (429, 502, 503, 504)

log = logging.getLogger(__name__)


class ChatSession(AskedSession[Wish, Telling]):
    """Keeps the caller's turns and asks the server for each answer. An interruption closes the request."""

    def __init__(
        self, request: OpenModel, emit: Emit, client: httpx.AsyncClient, options: ChatOptions, senses: Senses
    ) -> None:
        rate_hz = VOICE_RATE_HZ if senses.speaks else options.output_rate_hz
        floor = Floor(emit, output_rate_hz=rate_hz, lead_ms=options.lead_ms)
        super().__init__(request, floor, f"chat {request.session_id}")
        self._client = client
        self._options = options
        self._senses = senses
        self._ears = Agenda(self._floor, f"chat {request.session_id}, hearing")
        self._extra_body = request.extra_body
        self._wish = self._wished(request)

    def _turn_ended(self, request: EndTurn) -> None:
        if self._senses.hears:
            self._ears.add(0, functools.partial(self._understand, request))
        else:
            super()._turn_ended(request)

    async def _close(self) -> None:
        await self._ears.close()
        await super()._close()

    async def _understand(self, request: EndTurn) -> None:
        """What the caller said, in words; then the answer to it, unless an interruption has overtaken it."""
        words, failed = "", None
        try:
            words = await self._senses.understand(self._memory.speech.get(request.item_id, b""))
        except Exception as error:
            log.exception("speech recognition failed")
            failed = f"speech recognition failed: {error}"
        self._memory.understood(request.item_id, words)
        self._floor.report(
            ModelHeardTurn(epoch=self._floor.epoch, transcript=words, item_id=request.item_id, failed=failed)
        )
        if not request.respond or request.epoch < self._floor.epoch:
            return
        if words:
            self._answers.add(request.epoch, functools.partial(self._answer, self._wish))
        else:
            self._floor.listen("silence_or_noise")

    def _wished(self, request: OpenModel | ReconfigureModel | Generate) -> Wish:
        """The settings, or for one answer what it overrides of them."""
        if isinstance(request, Generate):
            session = self._wish
            return Wish(
                instructions=session.instructions if request.instructions is None else request.instructions,
                modalities=self._modalities(request.modalities),
                voice=session.voice if request.voice is None else request.voice,
                temperature=session.temperature if request.temperature is None else request.temperature,
                max_tokens=request.max_output_tokens,
                tools=session.tools if request.tools is None else request.tools,
                tool_choice=request.tool_choice,
                extra_body=self._extra_body,
            )
        return Wish(
            instructions=request.instructions,
            modalities=self._modalities(request.modalities),
            voice=request.voice,
            temperature=request.temperature,
            tools=request.tools,
            extra_body=self._extra_body,
        )

    def _modalities(self, wanted: tuple[str, ...]) -> tuple[str, ...]:
        return wanted if self._options.audio else ("text",)

    def _asked_of_server(self, wish: Wish) -> Wish:
        """A server whose words are spoken here only writes."""
        return replace(wish, modalities=("text",)) if self._senses.speaks else wish

    async def _answer(
        self, wish: Wish, history: Sequence[HistoryItem] | None = None, response_id: str | None = None
    ) -> None:
        body = request_body(
            self._options.chat_model,
            self._memory.told(history),
            self._memory.speech,
            self._asked_of_server(wish),
            audio_part=self._options.audio_part,
        )
        answer = self._floor.begin(response_id)
        telling = self._telling = Telling(
            answer, self._floor, self._options, self._senses, aloud="audio" in wish.modalities
        )
        try:
            await self._ask(body, telling)
        except ChatRefused as refused:
            answer.fail(refused.code, str(refused))
        except (httpx.HTTPError, SoundUnusable, ValueError, TimeoutError) as error:
            answer.fail("response_error", f"{type(error).__name__}: {error}".removesuffix(": "))
        else:
            await telling.finish()
        finally:
            if self._telling is telling:
                self._remember()

    async def _ask(self, body: dict[str, Any], telling: Telling) -> None:
        """Tell what the server answers, asking it again if it fails before it has said anything.

        Raises: ChatRefused, httpx.HTTPError, TimeoutError, SoundUnusable, ValueError, AnswerCut.
        """
        for left in range(self._options.retries, -1, -1):
            try:
                await self._ask_once(body, telling)
                return
            except (Unwell, httpx.TransportError, TimeoutError) as fault:
                if telling.has_begun or not left:
                    raise fault.refused if isinstance(fault, Unwell) else fault from None
                log.info("the chat server is asked again: %r", fault)
            await asyncio.sleep(RETRY_S * 2 ** (self._options.retries - left))

    async def _ask_once(self, body: dict[str, Any], telling: Telling) -> None:
        message = f"the chat server said nothing within {self._options.first_byte_s:g} s"
        async with AsyncExitStack() as stack:
            patience = await stack.enter_async_context(patient(self._options.first_byte_s, message))
            response = await stack.enter_async_context(self._client.stream("POST", _address(self._options), json=body))
            if response.status_code != httpx.codes.OK:
                refused = _refused(response.status_code, (await response.aread()).decode("utf-8", "replace"))
                raise Unwell(refused) if response.status_code in AGAIN_STATUS else refused
            async for part in parts_of(response.aiter_lines()):
                patience.reschedule(None)
                await telling.tell(part)


class Unwell(Exception):
    """The server is overloaded or being restarted: the same may be asked again."""

    def __init__(self, refused: ChatRefused) -> None:
        super().__init__(str(refused))
        self.refused = refused


@asynccontextmanager
async def patient(wait_s: float, message: str) -> AsyncIterator[asyncio.Timeout]:
    """A timeout that says what was waited for."""
    try:
        async with asyncio.timeout(wait_s) as patience:
            yield patience
    except TimeoutError as late:
        raise TimeoutError(message) if patience.expired() else late from None


def _address(options: ChatOptions) -> str:
    root = (options.chat_url or "").rstrip("/")
    return root if root.endswith("/chat/completions") else f"{root}/chat/completions"


def _refused(status: int, text: str) -> ChatRefused:
    otherwise = f"the chat server answered {status}: {text[:SHOWN_CHARS]}"
    try:
        return refusal(json.loads(text), otherwise)
    except ValueError:
        return ChatRefused("chat_error", otherwise)
