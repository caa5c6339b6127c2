"""The model's card, and which engine it runs on."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import partial

import msgspec

from duplex_es.model import ModelInfo
from workers.engine.starting import Ways
from workers.neural.moshi.shape import SHAPES
from workers.neural.personaplex.options import NAME, EngineOptions, read_engine_options
from workers.neural.personaplex.silence import silenced

from ..cards import PERSONAPLEX
from ..stepping.model import EnginePlan, SteppingModel
from ..stepping.voice import Manner

FACTORY = "workers.neural.personaplex.engine:make"


def PLUGIN(options: Mapping[str, str]) -> SteppingModel:
    """The model; ``python`` is the engine's interpreter, ``cancel`` what an interruption does to the model's context:

    ``restart`` it, as the published server does, or ``rewind`` it to what was heard. All else is the engine's.
    Raises: ValueError by option.
    """
    engine = dict(options)
    python = engine.pop("python", sys.executable)
    cancel = engine.pop("cancel", "restart")
    if cancel not in {"restart", "rewind"}:
        raise ValueError(f"model {NAME}: option cancel is {cancel!r}; it is restart or rewind")
    told = read_engine_options(engine)
    manner = Manner(silenced=partial(silenced, shape=SHAPES[told.shape]) if cancel == "rewind" else None)
    ways = Ways(holds=told.keep != "nothing", standby=told.standby)
    plan = EnginePlan(FACTORY, engine, python=python, ways=ways)
    return SteppingModel(card(told), plan, manner, refuse=PERSONAPLEX.refuse)


def card(options: EngineOptions) -> ModelInfo:
    """The published card; but here a session can be resumed, as its memory is in the log."""
    published = PERSONAPLEX.info
    capabilities = msgspec.structs.replace(published.capabilities, supports_session_resume=True)
    return msgspec.structs.replace(published, capabilities=capabilities, memory_bytes=options.memory_bytes)
