"""What reading may raise."""


class ReadingError(Exception):
    """A log cannot be read as asked; the message says what to do about it, in one line."""


class SessionMissing(ReadingError):
    """There is no such session where it was looked for."""
