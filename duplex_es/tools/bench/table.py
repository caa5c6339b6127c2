"""A report as a person reads it."""

from __future__ import annotations

from typing import Any

from ...protocol.errors import ERRORS, Fault
from .report import BenchReport, Distribution

NOT_OF_THE_WIRE = {
    "connection_failed": "no connection to {urls}: does a gateway listen there, and can it be reached from here?",
    "protocol_error": "{urls} answered, but not as this API does",
    "session_ended": "the connection ended before the session was open",
}
"""What a caller notes where no error code was said."""
BY_FAULT: dict[Fault, str] = {
    "client": "refused as asked: compare --model and --extra-body with what the service offers (duplex-es models URL)",
    "capacity": "refused for want of room: fewer --sessions, a longer --ramp-s, or more workers",
    "server": "the service failed: its gateways' and workers' own log lines say at what",
}


def rows(report: BenchReport) -> list[list[str]]:
    """The table: a name, how many, mean, p50, p95, p99 and the largest; only what was measured.

    What the stages of the model tell stands under their own names, which end in the unit where it is not milliseconds.
    """
    request, audio, service = report.request_metrics, report.audio_output, report.service
    named: list[tuple[str, Distribution | None]] = [
        ("session opening", report.sessions.opening_ms),
        ("service round trip (heartbeat)", report.round_trip_ms),
        ("   up: commit -> its record", service.up_ms if service else None),
        ("   down: a sound's record -> caller", service.down_ms if service else None),
        ("question's end -> first words", request.ttft_ms),
        ("question's end -> first sound", request.ttfp_ms),
        ("answer announced -> first sound", audio.response_created_to_first_audio_ms),
        ("between pieces of sound", audio.inter_chunk_interval_ms),
        ("a piece's own length", audio.chunk_duration_ms),
        ("longest wait of an answer", audio.max_chunk_gap_ms),
        ("jitter of an answer", audio.jitter_ms),
        ("silences without a reserve", audio.gap_ms),
        ("cut -> resumed", report.resume_ms),
        *(
            (f"stage {stage}: {name}", summary)
            for stage, summaries in report.stage_metrics.items()
            for name, summary in sorted(summaries.items())
        ),
    ]
    head = ["milliseconds", "count", "mean", "p50", "p95", "p99", "max"]
    return [head, *(_row(name, summary) for name, summary in named if summary is not None)]


def _row(name: str, summary: Distribution) -> list[str]:
    numbers = (summary.mean, summary.p50, summary.p95, summary.p99, summary.max)
    return [name, str(summary.count), *(f"{number:.1f}" for number in numbers)]


def facts(report: BenchReport) -> list[tuple[str, str]]:
    """What is no distribution: sessions, answers, throughput, errors."""
    through, answers = report.throughput, report.answers
    endings = ", ".join(f"{count} {status}" for status, count in sorted(answers.by_status.items())) or "none"
    found: list[tuple[str, Any]] = [
        ("sessions", f"{report.sessions.opened} opened, {report.sessions.failed} failed"),
        ("answers", f"{endings}; {answers.unanswered} questions unanswered, {answers.cut} cut and resumed"),
        ("gaps", f"{report.audio_output.answers_with_gaps} answers would have stuttered without a reserve"),
        ("throughput", f"{through.answers_per_s:.1f} answers/s, {through.audio_s_per_s:.1f} s of sound per second"),
        ("traffic", f"{_kilobytes(through.sent_bytes_per_s)} up, {_kilobytes(through.received_bytes_per_s)} down"),
        ("errors", ", ".join(f"{count} {code}" for code, count in sorted(report.errors.items())) or "none"),
    ]
    return [(name, str(text)) for name, text in found]


def troubles(report: BenchReport) -> list[tuple[str, str]]:
    """Why nothing was measured: each error with its number and what to look at, the most frequent first.

    Empty as soon as one session was opened: then there are times to show.
    """
    if report.sessions.opened:
        return []
    found = sorted(report.errors.items(), key=lambda each: (-each[1], each[0]))
    return [(f"{count} {code}", _meaning(code, report.load.urls)) for code, count in found]


def _meaning(code: str, urls: list[str]) -> str:
    if known := ERRORS.get(code):
        return BY_FAULT[known.fault]
    return NOT_OF_THE_WIRE.get(code, "a code that this client does not know").format(urls=" or ".join(urls))


def _kilobytes(bytes_per_s: float) -> str:
    return f"{bytes_per_s / 1000:.0f} kB/s"
