"""The chat model's card, and its connection to the server."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping

import httpx
import msgspec

from duplex_es.model import Emit, ModelInfo, OpenModel

from ..lanes import CHAT
from ..memory import SPEECH_RATE_HZ
from ..options import read_options
from .options import ChatOptions
from .senses import RATE_HZ as VOICE_RATE_HZ
from .senses import Senses, load_senses
from .session import ChatSession

CONNECT_S = 10.0
KEY_VARIABLE = "DUPLEX_ES_CHAT_KEY"


class ChatModel:
    """One chat server behind the contract: it listens to whole turns and answers each by one request.

    Its flags are those of the chat lane, but for what the session log adds: a session can be resumed, and many run at
    a time.
    """

    def __init__(
        self,
        options: Mapping[str, str],
        transport: httpx.AsyncBaseTransport | None = None,
        loader: Callable[[ChatOptions], Senses] = load_senses,
    ) -> None:
        """Raises: ValueError for an option that there is not, or that cannot work."""
        self.options = read_options(ChatOptions, options, "chat")
        if complaint := self.options.complaint():
            raise ValueError(complaint)
        self._transport = transport
        self._loader = loader
        self._senses: Senses | None = None
        hears, speaks = self.options.audio_in == "asr", self.options.audio_out == "tts"
        self._client: httpx.AsyncClient | None = None
        self.info = ModelInfo(
            name=self.options.name,
            capabilities=msgspec.structs.replace(
                CHAT, supports_session_resume=True, supports_session_lease=True, supports_multi_session=True
            ),
            input_rate_hz=SPEECH_RATE_HZ,
            output_rate_hz=VOICE_RATE_HZ if speaks else self.options.output_rate_hz,
            transcribes=hears,
            takes_text_turns=True,
            takes_response_options=True,
            keeps_audio=not hears,
        )

    async def load(self) -> None:
        """Make the connection pool, load ears and voice; nothing is asked of the server yet.

        Raises: RuntimeError without an address, or for a part that is not installed.
        """
        if not self.options.chat_url:
            raise RuntimeError("option chat_url is missing: the root of the chat server's API, http://host:8000/v1")
        self._senses = await asyncio.to_thread(self._loader, self.options)
        key = self.options.chat_key or os.environ.get(KEY_VARIABLE)
        self._client = httpx.AsyncClient(
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=httpx.Timeout(self.options.idle_s, connect=CONNECT_S, pool=None),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=32),
            transport=self._transport,
        )

    async def open(self, request: OpenModel, emit: Emit) -> ChatSession:
        """Begin a session; the server knows nothing of it until the first turn."""
        if self._client is None or self._senses is None:
            raise RuntimeError("the chat model is not loaded")
        return ChatSession(request, emit, self._client, self.options, self._senses)

    async def unload(self) -> None:
        """Close all connections, and free the threads."""
        client, self._client = self._client, None
        senses, self._senses = self._senses, None
        if senses is not None:
            await asyncio.to_thread(senses.close)
        if client is not None:
            await client.aclose()
