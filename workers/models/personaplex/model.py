"""The model's card, and which engine it runs on."""

from __future__ import annotations

import sys
from collections.abc import Mapping

import msgspec

from duplex_es.model import ModelInfo
from workers.engine.starting import Ways
from workers.neural.personaplex.options import EngineOptions, read_engine_options

from ..cards import PERSONAPLEX
from ..stepping.model import EnginePlan, SteppingModel
from ..stepping.voice import Manner

FACTORY = "workers.neural.personaplex.engine:make"


def PLUGIN(options: Mapping[str, str]) -> SteppingModel:
    """The model; ``python`` is the engine's interpreter, all else is the engine's. Raises: ValueError by option."""
    engine = dict(options)
    python = engine.pop("python", sys.executable)
    told = read_engine_options(engine)
    ways = Ways(holds=told.keep != "nothing", standby=told.standby)
    plan = EnginePlan(FACTORY, engine, python=python, ways=ways)
    return SteppingModel(card(told), plan, Manner(), refuse=PERSONAPLEX.refuse)


def card(options: EngineOptions) -> ModelInfo:
    """The published card; but here a session can be resumed, as its memory is in the log."""
    published = PERSONAPLEX.info
    capabilities = msgspec.structs.replace(published.capabilities, supports_session_resume=True)
    return msgspec.structs.replace(published, capabilities=capabilities, memory_bytes=options.memory_bytes)
