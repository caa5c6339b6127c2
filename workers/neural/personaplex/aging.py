"""Makes sessions look as old as they get, so that what is measured is the most that a beat can cost."""

from __future__ import annotations

from ..mimi.streaming import WindowedTransformer
from .building import Parts

CODEC_POSITION = 1000


def age(parts: Parts, slot: int | None) -> int:
    """Make ``slot`` look as if its session had gone on for longer than its windows; ``None``: all, with noise in them.

    Its position is told. What such a session says means nothing.
    """
    stepper, codec = parts.beat.stepper, parts.beat.codec
    where = slice(None) if slot is None else slot
    position = parts.shape.window + 7
    stepper.position[where] = position
    for layer in codec.layers:
        if isinstance(layer, WindowedTransformer):
            layer.position[where] = CODEC_POSITION
    if slot is None:
        for ring in stepper.rings:
            ring.fill_with_noise()
    return position
