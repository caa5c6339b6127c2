"""See ``duplex_es.reading.records``."""

from ..reading.records import (
    InputLine,
    Line,
    OutputLine,
    input_line,
    output_line,
    read_lines,
)

__all__ = [
    "InputLine",
    "Line",
    "OutputLine",
    "input_line",
    "output_line",
    "read_lines",
]
