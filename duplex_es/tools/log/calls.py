"""See ``duplex_es.reading.calls``."""

from ...reading.calls import (
    JITTER_MS,
    WIDTHS,
    Answer,
    Call,
    Piece,
    place_answers,
    read_call,
)

__all__ = [
    "JITTER_MS",
    "WIDTHS",
    "Answer",
    "Call",
    "Piece",
    "place_answers",
    "read_call",
]
