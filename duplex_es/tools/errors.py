"""Trouble that a command tells in one line on stderr."""

from ..reading.errors import ReadingError as ToolError

__all__ = ["ToolError"]
