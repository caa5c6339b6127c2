"""What a benchmark found, as one JSON object of a fixed schema.

Keys that ``EventCollector.timing_summary`` has as well mean the same here, each as a distribution over all answers, so
that results compare with those of other benchmarks of this API. Times are milliseconds of the client's monotonic clock.
"""

from __future__ import annotations

import math
import os
import platform
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from ... import __version__
from ...client.figures import finite
from .inside import ServiceTimes
from .plan import BenchPlan
from .takes import AnswerTake, SessionTake

Schema = Literal["duplex_es.bench/1"]
SCHEMA: Schema = "duplex_es.bench/1"


class Distribution(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``count`` values; percentiles by nearest rank."""

    count: int
    mean: float
    p50: float
    p95: float
    p99: float
    max: float


def distribution(values: Iterable[float | None]) -> Distribution | None:
    """The distribution of what is there; ``None`` when nothing is."""
    found = sorted(value for value in values if value is not None)
    if not found:
        return None

    def rank(part: float) -> float:
        return round(found[max(0, math.ceil(part * len(found)) - 1)], 3)

    return Distribution(
        count=len(found),
        mean=round(sum(found) / len(found), 3),
        p50=rank(0.5),
        p95=rank(0.95),
        p99=rank(0.99),
        max=round(found[-1], 3),
    )


class Load(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What was asked of the server."""

    urls: list[str]
    model: str
    sessions: int
    duration_s: float
    ramp_s: float
    question_ms: float
    chunk_ms: int
    pause_ms: int
    commits: bool
    cut_every: int
    continuous: bool


class Machine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the callers ran."""

    python: str
    system: str
    cpus: int
    client: str


class Sessions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the sessions went. ``failed`` could not be opened, or ended before their callers hung up."""

    opened: int
    failed: int
    opening_ms: Distribution | None


class RequestMetrics(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """From the question's end (``measurement_origin``) to the first words and the first sound, and what followed."""

    source: Literal["client_monotonic_receive"]
    measurement_origin: Literal["input_committed", "speech_end", "first_append"]
    ttft_ms: Distribution | None
    ttfp_ms: Distribution | None
    audio_generation_ms: Distribution | None
    audio_duration_ms: Distribution | None


class AudioOutput(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the sound came. ``gap_ms`` are silences that a player without reserve would have made, one by one."""

    source: Literal["client_monotonic_receive"]
    chunk_count: int
    response_created_to_first_audio_ms: Distribution | None
    inter_chunk_interval_ms: Distribution | None
    chunk_duration_ms: Distribution | None
    max_chunk_gap_ms: Distribution | None
    jitter_ms: Distribution | None
    gap_ms: Distribution | None
    answers_with_gaps: int


class Answers(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many answers ended how; ``unanswered`` questions had none in time, ``cut`` lost their connection midway."""

    by_status: dict[str, int]
    unanswered: int
    cut: int


class Service(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """By the timestamps in the log: from a commit to its record, and from a sound's record to its caller."""

    source: Literal["log_records"]
    up_ms: Distribution | None
    down_ms: Distribution | None


class Throughput(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All callers together, over the time from the first to the last of them."""

    answers_per_s: float
    audio_s_per_s: float
    received_events_per_s: float
    sent_bytes_per_s: float
    received_bytes_per_s: float


class BenchReport(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole result. ``round_trip_ms`` is a heartbeat through gateway, log and worker and back: what the service

    adds, without a model. ``service`` is there when the log could be read. ``resume_ms`` is from the cut of a
    connection to ``session.resumed``. ``stage_metrics`` is what the stages of the model told of themselves, by stage
    and name; ``stage0_tokens`` is that of the stage that makes the words.
    """

    schema: Schema
    started_at: str
    elapsed_s: float
    load: Load
    machine: Machine
    sessions: Sessions
    answers: Answers
    request_metrics: RequestMetrics
    audio_output: AudioOutput
    stage0_tokens: dict[str, Distribution]
    stage_metrics: dict[str, dict[str, Distribution]] = {}
    round_trip_ms: Distribution | None
    service: Service | None
    resume_ms: Distribution | None
    throughput: Throughput
    errors: dict[str, int]


def summarize(
    plan: BenchPlan,
    takes: Sequence[SessionTake],
    *,
    started_at: str,
    elapsed_s: float,
    inside: ServiceTimes | None = None,
) -> BenchReport:
    """The report of what these callers took down. An answer that was cut counts, but not for cadence."""
    answers = [answer for take in takes for answer in take.answers]
    stages = _stages(answers)
    errors = Counter(take.error for take in takes if take.error)
    errors.update(code for take in takes for code in take.refusals)
    return BenchReport(
        schema=SCHEMA,
        started_at=started_at,
        elapsed_s=round(elapsed_s, 3),
        load=_load(plan),
        machine=Machine(
            python=platform.python_version(),
            system=f"{platform.system()} {platform.machine()}",
            cpus=os.cpu_count() or 0,
            client=f"duplex-es {__version__}",
        ),
        sessions=Sessions(
            opened=sum(take.opening_ms is not None for take in takes),
            failed=sum(take.error is not None for take in takes),
            opening_ms=distribution(take.opening_ms for take in takes),
        ),
        answers=Answers(
            by_status=dict(Counter(answer.status for answer in answers)),
            unanswered=sum(take.unanswered for take in takes),
            cut=sum(answer.was_cut for answer in answers),
        ),
        request_metrics=_request_metrics(plan, answers),
        audio_output=_audio_output(answers),
        stage0_tokens=stages.get("0", {}),
        stage_metrics=stages,
        round_trip_ms=distribution(value for take in takes for value in take.round_trips_ms),
        service=_service(inside),
        resume_ms=distribution(value for take in takes for value in take.resumes_ms),
        throughput=_throughput(takes, answers, elapsed_s),
        errors=dict(errors),
    )


def _load(plan: BenchPlan) -> Load:
    return Load(
        urls=list(plan.urls),
        model=plan.model,
        sessions=plan.sessions,
        duration_s=plan.duration_s,
        ramp_s=plan.ramp_s,
        question_ms=round(plan.question.duration_ms, 3),
        chunk_ms=plan.chunk_ms,
        pause_ms=plan.pause_ms,
        commits=plan.commits,
        cut_every=plan.cut_every,
        continuous=plan.continuous,
    )


def _request_metrics(plan: BenchPlan, answers: Sequence[AnswerTake]) -> RequestMetrics:
    return RequestMetrics(
        source="client_monotonic_receive",
        measurement_origin=_origin(plan),
        ttft_ms=distribution(answer.ttft_ms for answer in answers),
        ttfp_ms=distribution(answer.ttfp_ms for answer in answers),
        audio_generation_ms=distribution(answer.audio_generation_ms for answer in answers),
        audio_duration_ms=distribution(answer.audio_duration_ms for answer in answers if answer.chunks),
    )


def _origin(plan: BenchPlan) -> Literal["input_committed", "speech_end", "first_append"]:
    if plan.continuous:
        return "first_append"
    return "input_committed" if plan.commits else "speech_end"


def _audio_output(answers: Sequence[AnswerTake]) -> AudioOutput:
    whole = [answer for answer in answers if not answer.was_cut]
    return AudioOutput(
        source="client_monotonic_receive",
        chunk_count=sum(len(answer.chunks) for answer in answers),
        response_created_to_first_audio_ms=distribution(answer.created_to_first_audio_ms for answer in answers),
        inter_chunk_interval_ms=distribution(each for answer in whole for each in answer.intervals_ms()),
        chunk_duration_ms=distribution(chunk.duration_ms for answer in answers for chunk in answer.chunks),
        max_chunk_gap_ms=distribution(max(answer.intervals_ms(), default=None) for answer in whole),
        jitter_ms=distribution(answer.jitter_ms() for answer in whole),
        gap_ms=distribution(gap for answer in whole for gap in answer.gaps_ms()),
        answers_with_gaps=sum(bool(answer.gaps_ms()) for answer in whole),
    )


def _service(inside: ServiceTimes | None) -> Service | None:
    if inside is None:
        return None
    return Service(source="log_records", up_ms=distribution(inside.up_ms), down_ms=distribution(inside.down_ms))


def _stages(answers: Sequence[AnswerTake]) -> dict[str, dict[str, Distribution]]:
    """What the stages of the model said of themselves: every number by stage and name, of lists each number."""
    values: dict[str, dict[str, list[float]]] = {}
    for stage, told in (pair for answer in answers for pair in sorted(answer.stages.items())):
        for name, value in told.items() if isinstance(told, dict) else ():
            listed = value if isinstance(value, list) else [value]
            numbers = [number for each in listed if (number := finite(each)) is not None]
            values.setdefault(stage, {}).setdefault(name, []).extend(numbers)
    found = {
        stage: {name: summary for name, numbers in named.items() if (summary := distribution(numbers)) is not None}
        for stage, named in values.items()
    }
    return {stage: summaries for stage, summaries in sorted(found.items()) if summaries}


def _throughput(takes: Sequence[SessionTake], answers: Sequence[AnswerTake], elapsed_s: float) -> Throughput:
    def per_s(amount: float) -> float:
        return round(amount / elapsed_s, 3) if elapsed_s else 0.0

    return Throughput(
        answers_per_s=per_s(len(answers)),
        audio_s_per_s=per_s(sum(answer.audio_duration_ms for answer in answers) / 1000),
        received_events_per_s=per_s(sum(take.received_events for take in takes)),
        sent_bytes_per_s=per_s(sum(take.sent_bytes for take in takes)),
        received_bytes_per_s=per_s(sum(take.received_bytes for take in takes)),
    )
