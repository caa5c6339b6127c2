"""Numbers over measurements: nearest-rank percentiles, nothing interpolated, milliseconds to three decimals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

MS_DIGITS = 3
RATIO_DIGITS = 6


def rounded_ms(value: float) -> float:
    """``value`` to a thousandth of a millisecond."""
    return round(float(value), MS_DIGITS)


def finite(value: object) -> float | None:
    """``value`` if it is a finite number, and not a truth value."""
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    return None


def nearest_rank(ordered: Sequence[float], share: float) -> float:
    """The smallest of these ascending values that at least ``share`` of them do not exceed."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def interval_summary(intervals_ms: Sequence[float]) -> dict[str, float | int]:
    """Count, mean, p50, p95 and max; all 0 when there is no interval."""
    ordered = sorted(rounded_ms(value) for value in intervals_ms if math.isfinite(value) and value >= 0)
    if not ordered:
        return {"count": 0, "mean": 0.0, "p50": 0.0, "p95": 0.0, "max": 0.0}
    return {
        "count": len(ordered),
        "mean": rounded_ms(sum(ordered) / len(ordered)),
        "p50": nearest_rank(ordered, 0.50),
        "p95": nearest_rank(ordered, 0.95),
        "max": ordered[-1],
    }


def distribution_summary(values: Sequence[float], *, digits: int = MS_DIGITS) -> dict[str, float | int] | None:
    """Count, mean, p50 and p99 of the finite ``values``; ``None`` when there are none."""
    ordered = sorted(number for value in values if (number := finite(value)) is not None)
    if not ordered:
        return None
    return {
        "count": len(ordered),
        "mean": round(sum(ordered) / len(ordered), digits),
        "p50": round(nearest_rank(ordered, 0.50), digits),
        "p99": round(nearest_rank(ordered, 0.99), digits),
    }


def metric_mean(value: object) -> float | None:
    """The number itself, or the ``mean`` of a summary."""
    return finite(value.get("mean") if isinstance(value, Mapping) else value)


def summarize_session_request_metrics(
    request_metrics: Sequence[Mapping[str, Any]], *, session_id: str | None
) -> dict[str, Any]:
    """One session's answers in one summary, from their ``request_metrics``; what one of them lacks is left out of it.

    ``rtf`` is there for callers that add it to each. ``tpot_ms`` is absent when no answer has a positive one.
    """

    def summed(metric: str, *, digits: int = MS_DIGITS, least: float = -math.inf) -> dict[str, float | int] | None:
        found = [number for each in request_metrics if (number := finite(each.get(metric))) is not None]
        return distribution_summary([number for number in found if number > least], digits=digits)

    summary: dict[str, Any] = {
        "session_id": session_id,
        "audio_turn_count": len(request_metrics),
        "ttft_ms": summed("ttft_ms"),
        "ttfp_ms": summed("ttfp_ms"),
        "rtf": summed("rtf", digits=RATIO_DIGITS),
    }
    if (per_token := summed("tpot_ms", least=0.0)) is not None:
        summary["tpot_ms"] = per_token
    return summary
