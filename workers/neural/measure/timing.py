"""Clocks, percentiles, and what the device says of itself."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch


def spread(values_ms: Sequence[float]) -> dict[str, float]:
    """p50, p95, p99 and max, in ms; of nothing, nothing."""
    if not values_ms:
        return {}
    ordered = sorted(values_ms)
    places = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
    last = len(ordered) - 1
    found = {name: round(ordered[min(last, int(place * len(ordered)))], 3) for name, place in places.items()}
    return found | {"max": round(ordered[-1], 3)}


def finished(device: torch.device) -> None:
    """Return once the device has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def timed(work: Callable[[], object], times: int, device: torch.device) -> dict[str, float]:
    """How long ``work`` takes until the device is done, ``times`` times over."""
    taken = []
    for _ in range(times):
        finished(device)
        began_s = time.perf_counter()
        work()
        finished(device)
        taken.append((time.perf_counter() - began_s) * 1000)
    return spread(taken)


def memory_gb(device: torch.device) -> dict[str, float]:
    """What is taken of the device's memory; empty on a processor."""
    if device.type != "cuda":
        return {}
    free, total = torch.cuda.mem_get_info(device)
    return {
        "taken": round((total - free) / 1e9, 2),
        "most_allocated": round(torch.cuda.max_memory_allocated(device) / 1e9, 2),
        "total": round(total / 1e9, 2),
    }


def surroundings(device: torch.device) -> dict[str, Any]:
    """Versions and the device's name and clocks."""
    import transformers

    found: dict[str, Any] = {"torch": torch.__version__, "transformers": transformers.__version__, "device": "cpu"}
    if device.type == "cuda":
        found["device"] = torch.cuda.get_device_name(device)
        query = "--query-gpu=clocks.sm,power.draw,temperature.gpu,driver_version"
        asked = ["nvidia-smi", query, "--format=csv,noheader"]
        try:
            found["nvidia_smi"] = subprocess.run(asked, capture_output=True, text=True, timeout=20).stdout.strip()
        except (OSError, subprocess.TimeoutExpired) as error:
            found["nvidia_smi"] = str(error)
        try:
            import triton

            found["triton"] = triton.__version__
        except ImportError:
            found["triton"] = None
    return found
