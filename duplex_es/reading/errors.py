"""What reading may raise."""


class ReadingError(Exception):
    """A log cannot be read as asked; the message says what to do about it, in one line."""
