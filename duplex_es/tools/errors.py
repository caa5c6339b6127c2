"""What a command reports instead of a traceback."""


class ToolError(Exception):
    """The command cannot go on; the message says what to do about it. The exit code is 1."""
