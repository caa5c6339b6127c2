"""How a socket reads the canonical stream: a pure projection, frame by frame.

The log holds one stream, in the dialect ``duplex``. A dialect may drop a frame, rename it or make several of it; it
never changes what is in the log, and what it makes of a frame depends on that frame alone.
"""

from __future__ import annotations

from duplex_es.protocol import Frame

DUPLEX = "duplex"
"""Every frame as it stands."""


def project(frame: Frame, dialect: str) -> tuple[Frame, ...]:
    """What a socket of ``dialect`` hears of ``frame``. Raises: KeyError for a dialect nobody speaks."""
    if dialect != DUPLEX:
        raise KeyError(dialect)
    return (frame,)
