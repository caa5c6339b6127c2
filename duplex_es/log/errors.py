"""What can go wrong with the log, as a tree.

LogError
├── Fenced               a newer claim or attachment writes now; stop, nothing was written
├── SessionUnknown       no such session, or it is gone; never re-created silently
├── SessionExists        ``create`` met a live session of that id
├── TokenRefused         the presented resume token is not the current one
├── IncarnationMismatch  the session was opened again since
├── PositionGone         the asked position was trimmed away; carries the first one left
├── PositionAhead        the asked position was never written, as far as the store knows; carries the last one
├── TailLost             the log ends before what it had acknowledged; carries the head
├── ConfigurationError   the store is reached but not fit: version, eviction policy, permissions
└── LogUnavailable       the store cannot be reached; the only one worth retrying

``Fenced`` and ``PositionGone`` are ordinary control flow.
"""


from __future__ import annotations

from .api import EntryId


class LogError(Exception):
    """Anything the log reports."""


class Fenced(LogError):
    """A writer of a newer generation holds this direction; the caller must stop writing for good."""


class SessionUnknown(LogError):
    """The session has no head: it never existed, was erased, or the store was emptied."""


class SessionExists(LogError):
    """A session of this id is open; opening it again would end a call that is going on."""


class TokenRefused(LogError):
    """The presented token digest matches neither the current nor the recovery digest."""


class IncarnationMismatch(LogError):
    """The id was opened again since; ``incarnation`` of the caller names an older session."""


class PositionGone(LogError):
    """What was asked for has been trimmed; ``first_available`` is the lowest seq that is left.

    For ``input`` it is an index, and ``trimmed`` the id of the last entry that is gone: reading on after it works.
    """

    def __init__(self, first_available: int, trimmed: EntryId | None = None) -> None:
        super().__init__(f"gone up to {first_available - 1 if trimmed is None else trimmed}")
        self.first_available = first_available
        self.trimmed = trimmed


class PositionAhead(LogError):
    """What the caller says it has is above the last seq that the store knows, ``last``."""

    def __init__(self, last: int) -> None:
        super().__init__(f"the log ends at seq {last}")
        self.last = last


class TailLost(LogError):
    """The store lost acknowledged entries; ``head_seq`` is where it ends now."""

    def __init__(self, head_seq: int) -> None:
        super().__init__(f"the log ends at seq {head_seq}, below what it had acknowledged")
        self.head_seq = head_seq


class ConfigurationError(LogError):
    """The store answers but cannot keep the promises; the message says which setting to change."""


class LogUnavailable(LogError):
    """The store did not answer in time. Whether a write landed was not established."""
