"""The cascade's card, its loading, and its sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import datetime

from duplex_es.model import Emit, ModelInfo, OpenModel
from duplex_es.protocol.objects import Capabilities
from workers.vad.silero import FRAME_MS
from workers.vad.silero import RATE_HZ as INPUT_RATE_HZ

from ..options import read_options
from ..speech.tts import RATE_HZ as OUTPUT_RATE_HZ
from .options import CascadeOptions
from .parts import Parts, load_parts, local_time
from .session import CascadeSession

Loader = Callable[[CascadeOptions, Callable[[], datetime]], Parts]


class CascadeModel:
    """Detector, recogniser, dialogue and voice behind one contract: converses on a CPU."""

    def __init__(
        self, options: Mapping[str, str], clock: Callable[[], datetime] = local_time, loader: Loader = load_parts
    ) -> None:
        """``options`` as in ``CascadeOptions``; ``clock`` tells the time the caller asks for. Raises: ValueError."""
        self.options = read_options(CascadeOptions, options, "cascade")
        self._clock = clock
        self._loader = loader
        self._parts: Parts | None = None
        self.info = ModelInfo(
            name="cascade",
            capabilities=Capabilities(
                supports_barge_in=True,
                supports_audio_truncate=True,
                supports_session_resume=True,
                supports_client_commit=True,
                supports_playback_ack=True,
                supports_external_turn_signal=False,
                supports_model_native_turn_policy=True,
                chunk_period_ms=FRAME_MS,
                target_barge_in_latency_ms=self.options.barge_in_ms,
            ),
            input_rate_hz=INPUT_RATE_HZ,
            output_rate_hz=OUTPUT_RATE_HZ,
            transcribes=True,
            takes_text_turns=True,
            takes_response_options=True,
            ends_turns=True,
            auto_response=True,
            overlap_policy="barge_in_on_speech",
            # What a chat server says it will not say a second time.
            can_rebuild=self.options.chat_url is None,
        )

    async def load(self) -> None:
        """Load all weights and warm up, about two seconds. Raises: CascadePartMissing naming what to install."""
        self._parts = await asyncio.to_thread(self._loader, self.options, self._clock)

    async def open(self, request: OpenModel, emit: Emit) -> CascadeSession:
        """Begin a session. There is one voice: another one asked for is spoken with it."""
        if self._parts is None:
            raise RuntimeError("the cascade is not loaded")
        return CascadeSession(request, emit, self._parts, self.options)

    async def unload(self) -> None:
        """Free the weights and stop the threads."""
        parts, self._parts = self._parts, None
        if parts is not None:
            await parts.close()
