"""What a call was like, in numbers."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from typing import Any

from .calls import Call

Spans = Sequence[tuple[float, float]]


def stats_of(call: Call) -> dict[str, Any]:
    """The numbers, in milliseconds. Speech that nobody detected is not counted."""
    latencies = sorted(answer.latency_ms for answer in call.answers if answer.latency_ms is not None)
    cut = [answer for answer in call.answers if answer.status == "cancelled"]
    heard = union([(p.begin_ms, p.begin_ms + p.keep_ms) for a in call.answers for p in a.pieces if p.keep_ms])
    spoken = union(call.speech)
    caller_ms, assistant_ms, both_ms = length(spoken), length(heard), 0.0
    both_ms = caller_ms + assistant_ms - length(union([*spoken, *heard]))
    whole_ms = max(1, call.length_ms)
    return {
        "length_ms": call.length_ms,
        "turns": len(call.commits),
        "answers": dict(Counter(answer.status for answer in call.answers)),
        "first_sound_ms": {
            "median": latencies[len(latencies) // 2] if latencies else None,
            "worst": latencies[-1] if latencies else None,
        },
        "interruptions": len(cut),
        "heard_before_interruption_ms": [round(answer.heard_ms) for answer in cut],
        "caller_ms": round(caller_ms),
        "assistant_ms": round(assistant_ms),
        "caller_ratio": round(caller_ms / whole_ms, 4),
        "assistant_ratio": round(assistant_ms / whole_ms, 4),
        "overlap_ms": round(both_ms),
        "longest_silence_ms": round(longest_gap(union([*spoken, *heard]), call.length_ms)),
        "attaches": len(call.attaches),
        "takeovers": max(0, len(call.claims) - 1),
        "refused": call.refused,
        "reports_playback": call.reports,
        "closed": call.closed,
    }


def union(spans: Spans) -> list[tuple[float, float]]:
    """The same time in spans that do not touch, ascending."""
    merged: list[tuple[float, float]] = []
    for begin, end in sorted(spans):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged


def length(spans: Spans) -> float:
    """How long spans that do not touch are together."""
    return sum(end - begin for begin, end in spans)


def longest_gap(spans: Spans, length_ms: float) -> float:
    """The longest time in the call that is in none of the spans."""
    edges = [(0.0, 0.0), *spans, (float(length_ms), float(length_ms))]
    return max(later[0] - earlier[1] for earlier, later in itertools.pairwise(edges))
