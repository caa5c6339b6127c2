"""A report as a person reads it."""

from __future__ import annotations

from typing import Any

from .report import BenchReport, Distribution


def rows(report: BenchReport) -> list[list[str]]:
    """The table: a name, how many, mean, p50, p95, p99 and the largest; only what was measured."""
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
        *((f"engine: {name}", summary) for name, summary in sorted(report.stage0_tokens.items())),
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


def _kilobytes(bytes_per_s: float) -> str:
    return f"{bytes_per_s / 1000:.0f} kB/s"
