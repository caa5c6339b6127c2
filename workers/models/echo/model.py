"""The echo model's card and its sessions.

Speech comes in at 24 kHz and goes out at 24 kHz, sample for sample. Text comes back as text; with audio wanted, each
word also sounds as a tone of its own.
"""

from __future__ import annotations

from collections.abc import Mapping

from duplex_es.model import Emit, ModelInfo, OpenModel
from duplex_es.protocol.objects import Capabilities

from ..options import read_options
from .session import RATE_HZ, EchoOptions, EchoSession


class EchoModel:
    """One echo model of a worker process; its sessions share nothing."""

    def __init__(self, options: Mapping[str, str]) -> None:
        """Raises: ValueError for an option that ``EchoOptions`` does not have."""
        self.options = read_options(EchoOptions, options, "echo")
        self.info = ModelInfo(
            name="echo",
            capabilities=Capabilities(
                supports_barge_in=True,
                supports_audio_truncate=True,
                supports_client_commit=True,
                supports_playback_ack=True,
                supports_external_turn_signal=False,
                supports_model_native_turn_policy=True,
                chunk_period_ms=20,
            ),
            input_rate_hz=RATE_HZ,
            output_rate_hz=RATE_HZ,
            transcribes=True,
            takes_text_turns=True,
            takes_response_options=False,
            ends_turns=True,
            auto_response=True,
            overlap_policy="listen_only",
            can_rebuild=True,
        )

    async def load(self) -> None:
        """Nothing to load."""

    async def unload(self) -> None:
        """Nothing to free."""

    async def open(self, request: OpenModel, emit: Emit) -> EchoSession:
        """Begin a session; any settings will do."""
        return EchoSession(request, emit, self.options)
