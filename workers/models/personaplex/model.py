"""The model's card, what it refuses, and which engine it runs on."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from duplex_es.model import ModelInfo, ModelRefused, OpenModel
from workers.neural.personaplex.options import NAME, EngineOptions, read_engine_options

from ..lanes import native
from ..stepping.model import EnginePlan, SteppingModel
from ..stepping.voice import Manner

FACTORY = "workers.neural.personaplex.engine:make"
REFUSED = "invalid_duplex_runtime_config"
PRIVATE_KEYS = ("personaplex_prefill_slots", "personaplex_model_path")
VOICES = frozenset(
    f"{family}{number}.pt"
    for family, count in (("NATF", 4), ("NATM", 4), ("VARF", 5), ("VARM", 5))
    for number in range(count)
)
"""The voices it is published with."""


def PLUGIN(options: Mapping[str, str]) -> SteppingModel:
    """The model; ``python`` is the engine's interpreter, all else is the engine's. Raises: ValueError by option."""
    engine = dict(options)
    python = engine.pop("python", sys.executable)
    plan = EnginePlan(FACTORY, engine, python=python)
    return SteppingModel(card(read_engine_options(engine)), plan, Manner(), refuse=refuse)


def card(options: EngineOptions) -> ModelInfo:
    """What callers may know. Its turns are its own: it is in one endless answer, and only heard."""
    return ModelInfo(
        name=NAME,
        capabilities=native(supports_client_commit=False, supports_session_resume=True),
        input_rate_hz=24_000,
        output_rate_hz=24_000,
        auto_response=True,
        memory_bytes=options.memory_bytes,
        private_keys=PRIVATE_KEYS,
        fixed_settings=("instructions", "voice"),
    )


def refuse(request: OpenModel) -> None:
    """Raises: ModelRefused for a voice it has not, and for keys that are not the client's to set."""
    for key in request.extra_body:
        if key in PRIVATE_KEYS:
            param = f"session.extra_body.{key}"
            raise ModelRefused(REFUSED, f"{param} is private to the runtime; leave it out.", param)
    if request.voice is not None and request.voice not in VOICES:
        message = f"session.voice: {request.voice!r:.60} is not one of {', '.join(sorted(VOICES))}."
        raise ModelRefused(REFUSED, message, "session.voice")
