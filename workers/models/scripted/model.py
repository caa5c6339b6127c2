"""The scripted model's card, and where a session's script comes from."""

from __future__ import annotations

from collections.abc import Mapping

from duplex_es.model import Emit, ModelInfo, ModelRefused, OpenModel
from duplex_es.protocol.objects import Capabilities

from ..options import read_options
from .script import DEFAULT_SCRIPT, BadScript, read_script
from .session import RATE_HZ, ScriptedOptions, ScriptedSession


class ScriptedModel:
    """Plays scripts: the session's (``extra_body.script``), else the worker's (option ``script``), else a default."""

    def __init__(self, options: Mapping[str, str]) -> None:
        """Raises: ValueError for an unknown option or a script that cannot be played."""
        self.options = read_options(ScriptedOptions, options, "scripted")
        self.script = read_script(self.options.script if self.options.script else DEFAULT_SCRIPT)
        self.info = ModelInfo(
            name="scripted",
            capabilities=Capabilities(
                supports_barge_in=True,
                supports_audio_truncate=True,
                supports_client_commit=True,
                supports_playback_ack=True,
                supports_external_turn_signal=False,
                supports_model_native_turn_policy=True,
                chunk_period_ms=self.options.chunk_ms,
            ),
            input_rate_hz=16_000,
            output_rate_hz=RATE_HZ,
            transcribes=True,
            takes_text_turns=True,
            takes_response_options=True,
            ends_turns=False,
            auto_response=self.options.auto_response,
            overlap_policy=self.options.overlap_policy,
            can_rebuild=self.options.can_rebuild,
        )

    async def load(self) -> None:
        """Nothing to load."""

    async def unload(self) -> None:
        """Nothing to free."""

    async def open(self, request: OpenModel, emit: Emit) -> ScriptedSession:
        """Begin a session and run its ``open`` step. Raises: ModelRefused for a script that cannot be played."""
        script = self.script
        if "script" in request.extra_body:
            try:
                script = read_script(request.extra_body["script"])
            except BadScript as error:
                raise ModelRefused("invalid_duplex_runtime_config", str(error), "extra_body.script") from error
        return ScriptedSession(request, emit, script, self.options)
