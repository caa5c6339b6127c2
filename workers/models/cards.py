"""The published models this project knows by name: card, units, and what an opening is refused for.

A real plug-in and the scripted model that stands in for it show the same card, so that a client cannot tell them apart
by what they promise. Nothing here needs weights or packages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import msgspec

from duplex_es.model import ModelInfo, ModelRefused, OpenModel

from .lanes import CHAT, native
from .units import UnitShape

RUNTIME = "invalid_duplex_runtime_config"


@dataclass(frozen=True, slots=True)
class Published:
    """One published model. ``units`` is absent where it takes audio as it comes; ``refuse`` raises ModelRefused."""

    info: ModelInfo
    units: UnitShape | None = None
    refuse: Callable[[OpenModel], None] = lambda request: None

    def is_native(self, request: OpenModel) -> bool:
        """Whether this session runs in the model's native lane; otherwise it is answered turn by turn."""
        opted_in = request.extra_body.get("native_duplex") is True
        return not self.info.is_chat_lane and (self.info.without_opt_in is None or opted_in)


def with_room_for(info: ModelInfo, sessions: int) -> ModelInfo:
    """``info`` of a loaded model that has room for so many; one that has room for one does not claim several."""
    several = sessions > 1
    capabilities = msgspec.structs.replace(
        info.capabilities,
        supports_multi_session=several and info.capabilities.supports_multi_session,
        supports_multi_session_same_replica=several and info.capabilities.supports_multi_session_same_replica is True,
    )
    return msgspec.structs.replace(info, capabilities=capabilities)


def refuse_private_keys(request: OpenModel, keys: tuple[str, ...]) -> None:
    """Raises: ModelRefused for a key of ``extra_body`` that is not the client's to set; ``x*`` means all from ``x``."""
    for key in request.extra_body:
        if any(key == private or (private.endswith("*") and key.startswith(private[:-1])) for private in keys):
            param = f"session.extra_body.{key}"
            raise ModelRefused(RUNTIME, f"{param} is private to the runtime; leave it out.", param)


# -- Qwen3-Omni and others that are asked by turns -------------------------------------------------------------------

CHAT_CARD = ModelInfo(
    name="Qwen/Qwen3-Omni-30B-A3B-Instruct",
    capabilities=CHAT,
    takes_text_turns=True,
    takes_response_options=True,
    keeps_audio=True,
)
QWEN3_OMNI = Published(info=CHAT_CARD)

# -- MiniCPM-o 4.5 ---------------------------------------------------------------------------------------------------

_MINICPM_PRIVATE = (
    "duplex_stage_sampling_params",
    "duplex_stage_max_tokens",
    "duplex_stage0_max_tokens",
    "duplex_scheduler_token_id",
    "duplex_first_append_context_tokens",
    "ref_audio_data",
    "ref_audio_format",
    "ref_audio_sample_rate_hz",
    "initial_user_text",
)


def _minicpm_refuses(request: OpenModel) -> None:
    """Its voice is the client's: without one it cannot speak. A path on the server's disk is none."""
    for key in ("ref_audio_path", "tts_ref_audio_path"):
        if key in request.extra_body:
            param = f"session.extra_body.{key}"
            raise ModelRefused("unsupported_ref_audio_path", f"{param} is not taken; send ref_audio.", param)
    refuse_private_keys(request, _MINICPM_PRIVATE)
    given = (request.ref_audio, request.extra_body.get("ref_audio"), request.extra_body.get("tts_ref_audio"))
    if "audio" in request.modalities and not any(isinstance(voice, str) and voice for voice in given):
        message = "session.ref_audio: this model speaks with the voice it is given; send one, or ask for text only."
        raise ModelRefused("ref_audio_required", message, "session.ref_audio")


_MINICPM_NAME = "openbmb/MiniCPM-o-4_5"
MINICPM = Published(
    info=ModelInfo(
        name=_MINICPM_NAME,
        capabilities=native(
            supports_external_turn_signal=True,
            supports_barge_in=True,
            supports_audio_truncate=True,
            signal_sources=["model_native", "client_event", "server_policy"],
            chunk_period_ms=1000,
        ),
        private_keys=_MINICPM_PRIVATE,
        without_opt_in=msgspec.structs.replace(CHAT_CARD, name=_MINICPM_NAME),
    ),
    # The first unit is what the audio encoder needs for one second of features, cut to its grid.
    units=UnitShape(period_ms=1000, first_ms=1030),
    refuse=_minicpm_refuses,
)

# -- PersonaPlex -----------------------------------------------------------------------------------------------------

_PERSONAPLEX_PRIVATE = ("personaplex_prefill_slots", "personaplex_model_path")
_VOICES = frozenset(
    f"{family}{number}.pt"
    for family, count in (("NATF", 4), ("NATM", 4), ("VARF", 5), ("VARM", 5))
    for number in range(count)
)


def _personaplex_refuses(request: OpenModel) -> None:
    """It has the voices it came with."""
    refuse_private_keys(request, _PERSONAPLEX_PRIVATE)
    if request.voice is not None and request.voice not in _VOICES:
        message = f"session.voice: {request.voice!r:.60} is not one of {', '.join(sorted(_VOICES))}."
        raise ModelRefused(RUNTIME, message, "session.voice")


PERSONAPLEX = Published(
    info=ModelInfo(
        name="nvidia/personaplex-7b-v1",
        capabilities=native(supports_client_commit=False, supports_session_resume=False),
        input_rate_hz=24_000,
        auto_response=True,
        private_keys=_PERSONAPLEX_PRIVATE,
        fixed_settings=("instructions", "voice"),
    ),
    units=UnitShape(period_ms=80),
    refuse=_personaplex_refuses,
)

# -- Nemotron VoiceChat ----------------------------------------------------------------------------------------------

_MOST_TOOLS = 5


def _nemotron_refuses(request: OpenModel) -> None:
    """It only answers by its own decision, and takes a handful of named tools."""
    if not any(request.extra_body.get(key) is True for key in ("auto_response", "full_duplex")):
        message = "session.extra_body.auto_response must be true: this model decides itself when it speaks."
        raise ModelRefused("unsupported_nemotron_duplex_mode", message, "session.extra_body.auto_response")
    refuse_private_keys(request, ("nvc_*",))
    if len(request.tools) > _MOST_TOOLS:
        message = f"session.tools: {len(request.tools)} tools; this model takes at most {_MOST_TOOLS}."
        raise ModelRefused(RUNTIME, message, "session.tools")
    for place, tool in enumerate(request.tools):
        if not tool_name(tool):
            raise ModelRefused(RUNTIME, f"session.tools[{place}] has no name.", f"session.tools[{place}].name")


def tool_name(tool: Mapping[str, object]) -> str | None:
    """What a tool is called, in either form that clients write it in; ``None`` if it has no name."""
    inner = tool.get("function")
    name = tool.get("name") or (inner.get("name") if isinstance(inner, Mapping) else None)
    return name if isinstance(name, str) and name.strip() else None


NEMOTRON = Published(
    info=ModelInfo(
        name="nvidia/NVIDIA-NemotronLabs-VoiceChat-11B",
        capabilities=native(supports_multi_session=False, supports_multi_session_same_replica=False),
        output_rate_hz=22_050,
        longest_append_samples=1_280,
        fixed_settings=("instructions", "tools"),
        private_keys=("nvc_*",),
    ),
    units=UnitShape(period_ms=80),
    refuse=_nemotron_refuses,
)
