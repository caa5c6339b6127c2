"""One picture of a report, with matplotlib where it is installed."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from ..errors import ToolError
from .report import BenchReport, Distribution

PARTS = ("p50", "p95", "p99", "max")


def require_matplotlib() -> None:
    """Return when pictures can be drawn. Raises: ToolError that says what to install."""
    if importlib.util.find_spec("matplotlib") is None:
        raise ToolError("--plot needs matplotlib; install it with: pip install 'duplex-es[plot]'")


def draw(report: BenchReport, path: Path) -> None:
    """Write the picture of ``report`` to ``path``; its suffix says the format.

    Raises: ToolError when matplotlib is missing or the format is not one of its.
    """
    require_matplotlib()
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    named = [(name, summary) for name, summary in _bars(report) if summary is not None]
    figure, axes = pyplot.subplots(figsize=(10, 1.6 + 0.9 * max(1, len(named))), layout="constrained")
    thickness = 0.8 / len(PARTS)
    for index, part in enumerate(PARTS):
        places = [row + index * thickness for row in range(len(named))]
        axes.barh(places, [getattr(summary, part) for _, summary in named], thickness, label=part)
    axes.set_yticks([row + 0.4 - thickness / 2 for row in range(len(named))], [name for name, _ in named])
    axes.invert_yaxis()
    axes.set_xlabel("ms")
    axes.legend(loc="lower right")
    load = report.load
    axes.set_title(f"{load.model}: {load.sessions} sessions, {load.duration_s:g} s, {report.started_at}")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        figure.savefig(path, dpi=120)
    except ValueError as error:
        raise ToolError(f"cannot draw {path}: {error}") from error
    finally:
        pyplot.close(figure)


def _bars(report: BenchReport) -> list[tuple[str, Distribution | None]]:
    return [
        ("service round trip", report.round_trip_ms),
        ("first words", report.request_metrics.ttft_ms),
        ("first sound", report.request_metrics.ttfp_ms),
        ("between pieces", report.audio_output.inter_chunk_interval_ms),
        ("longest wait", report.audio_output.max_chunk_gap_ms),
        ("cut -> resumed", report.resume_ms),
    ]
