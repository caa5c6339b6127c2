"""See ``duplex_es.reading.words``."""

from ...reading.words import (
    json_text,
    seconds,
)

__all__ = [
    "json_text",
    "seconds",
]
