"""What the stages of a model did for an answer: kept where the client asked for it, added up, shown at the end.

Source: docs/reference/realtime-api.md, "Stage metrics".
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import islice
from numbers import Integral, Real

from ..model import ModelMeasured, StageMetrics
from .effects import Effect
from .events import Fact, StagesMeasured
from .responses import is_stale
from .state import Session, StageTotal, replace

ASKED_BY = "return_stage_metrics"
"""The key of ``extra_body`` that asks for them; only a literal true counts."""
MOST_INTERVALS = 2_000
"""So many intervals of an answer are kept one by one, for each list of them."""

MOST_NAMES, LONGEST_WORD = 64, 200
"""So many stages are kept of what is told at once, and so many other figures of each; so many characters of a word."""
MOST = 2**53
"""No count or time is larger."""

_COUNTS = ("num_tokens_in", "num_tokens_out", "audio_generated_frames", "output_unit_count")
_ADDED = (*_COUNTS, "stage_gen_time_ms", "audio_duration_s")
_FIRST = ("vllm_ttft_ms", "serving_time_to_first_output_ms")
_LISTED = {"vllm_itls_ms": "vllm_itl_ms", "inter_output_latencies_ms": "inter_output_latency_ms"}
"""Lists of intervals, and the name of their mean."""
_NEWEST = ("output_unit_type", "final_output_type")


def decide_measured(session: Session, said: ModelMeasured, now_ms: int) -> tuple[Fact, ...]:
    """Keep what was measured of the answer that is being given, if the client asked for it and it makes sense."""
    if is_stale(session, said.epoch) or session.settings.extra_body.get(ASKED_BY) is not True:
        return ()
    if said.turn not in (one.turn for one in (session.response, session.begun) if one is not None):
        return ()
    stages = {str(stage): _sane(told) for stage, told in islice(said.stages.items(), MOST_NAMES)}
    stages = {stage: sane for stage, sane in stages.items() if sane != StageMetrics()}
    return (StagesMeasured(turn=said.turn, stages=stages),) if stages else ()


def _sane(told: StageMetrics) -> StageMetrics:
    """What of it can be, in plain types: nothing negative or endless, times to the microsecond.

    A plug-in may hand over anything here, and nothing of it is worth a session.
    """
    numbers = {name: _number(getattr(told, name)) for name in (*_ADDED, *_FIRST, "vllm_tpot_ms")}
    changes: dict[str, object] = {**numbers, **{name: int(numbers[name]) for name in _COUNTS}}
    changes.update({name: tuple(_number(each) for each in getattr(told, name)[:MOST_INTERVALS]) for name in _LISTED})
    changes.update({name: _word(getattr(told, name)) for name in _NEWEST})
    others = ((name, _other(value)) for name, value in told.other.items() if isinstance(name, str))
    known = {name[:LONGEST_WORD]: value for name, value in others if value is not None}
    return replace(told, **changes, other=dict(islice(known.items(), MOST_NAMES)))


def _figure(value: object) -> float | None:
    """A number as Python has it, also of numpy's; ``None`` for what is none."""
    if isinstance(value, int):
        return value
    if isinstance(value, Integral):
        return int(value)
    return float(value) if isinstance(value, Real) else None


def _number(value: object) -> float:
    found = _figure(value) or 0
    return round(float(min(found, MOST)), 3) if 0 < found < math.inf else 0


def _word(value: object) -> str:
    return value[:LONGEST_WORD] if isinstance(value, str) else ""


def _other(value: object) -> str | float | None:
    """A figure, a flag or a word; ``None`` for what is none of them, or cannot be packed."""
    if isinstance(value, str):
        return _word(value)
    found = _figure(value)
    return found if found is not None and abs(found) <= MOST else None


def apply(session: Session, fact: Fact) -> tuple[Session, tuple[Effect, ...]]:
    """Add what was measured to the answer that it is about. Total."""
    if isinstance(fact, StagesMeasured):
        live, begun = session.response, session.begun
        if live is not None and live.turn == fact.turn:
            return replace(session, response=replace(live, measured=_with(live.measured, fact.stages))), ()
        if begun is not None and begun.turn == fact.turn:
            return replace(session, begun=replace(begun, measured=_with(begun.measured, fact.stages))), ()
    return session, ()


def _with(known: Mapping[str, StageTotal], told: Mapping[str, StageMetrics]) -> dict[str, StageTotal]:
    return {**known, **{stage: added(known.get(stage, StageTotal()), more) for stage, more in told.items()}}


def added(total: StageTotal, more: StageMetrics) -> StageTotal:
    """The total once ``more`` has come: amounts add up, of first times the first holds, of words the newest.

    The time per token is the mean over all tokens but the first one of each time.
    """
    known = total.sum
    weight = max(1, more.num_tokens_out - 1) if more.vllm_tpot_ms > 0 else 0
    whole = total.weight + weight
    tpot_ms = (known.vllm_tpot_ms * total.weight + more.vllm_tpot_ms * weight) / whole if whole else 0
    changes: dict[str, object] = {name: getattr(known, name) + getattr(more, name) for name in _ADDED}
    changes.update({name: getattr(known, name) or getattr(more, name) for name in _FIRST})
    changes.update({name: (*getattr(known, name), *getattr(more, name))[:MOST_INTERVALS] for name in _LISTED})
    changes.update({name: getattr(more, name) or getattr(known, name) for name in _NEWEST})
    return StageTotal(replace(known, **changes, vllm_tpot_ms=tpot_ms, other={**known.other, **more.other}), whole)


def shown(measured: Mapping[str, StageTotal]) -> dict[str, object]:
    """The stages as a client reads them, numbers to the microsecond; what a stage does not know is left out."""
    return {stage: _shown(total.sum) for stage, total in measured.items()}


def _shown(told: StageMetrics) -> dict[str, object]:
    known = {name: getattr(told, name) for name in StageMetrics.__struct_fields__ if name != "other"}
    for name, mean in _LISTED.items():
        known[mean] = sum(known[name]) / len(known[name]) if known[name] else 0
    return {**told.other, **{name: _plain(value) for name, value in known.items() if value}}


def _plain(value: object) -> object:
    if isinstance(value, tuple):
        return list(value)
    return round(value, 3) if isinstance(value, float) else value
