"""Recording a piece of device work once and playing it back: a step of thousands of small kernels in one call."""

from __future__ import annotations

from collections.abc import Callable

import torch

WARM_UPS = 3


def recorded(work: Callable[[], None], device: torch.device) -> Callable[[], None]:
    """``work`` as one call that does the same on the same tensors; ``work`` itself where there is nothing to record.

    ``work`` is run a few times first and must change nothing then: no slot runs.
    """
    if device.type != "cuda":
        return work
    aside = torch.cuda.Stream(device)
    aside.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(aside):
        for _ in range(WARM_UPS):
            work()
    torch.cuda.current_stream(device).wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph.replay
