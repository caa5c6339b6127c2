"""What a client call may raise, as a tree.

DuplexClientError
├── DuplexConnectionError     the socket failed; the session may still live, and a resume may bring it back
├── DuplexProtocolError       the server answered with an error; carries its code
└── DuplexSessionClosedError  the session is over for this client; carries the reason
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class DuplexClientError(Exception):
    """Anything this client reports."""


class DuplexConnectionError(DuplexClientError):
    """The transport could not be opened, or broke. Whether the last command arrived is not known.

    ``retry_after_ms`` is when to try again, where the server said so.
    """

    def __init__(self, message: str, *, retry_after_ms: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_ms = retry_after_ms


class DuplexProtocolError(DuplexClientError):
    """The server refused something. Branch on ``code``; the message is for people.

    ``event_id`` names the refused command and ``retry_after_ms`` when the same may be tried again, where the server
    said so; ``raw`` is the event as received.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        event_id: str | None = None,
        retry_after_ms: float | None = None,
        raw: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(f"{code}: {message}" if code else message)
        self.code = code
        self.event_id = event_id
        self.retry_after_ms = retry_after_ms
        self.raw = raw


class DuplexSessionClosedError(DuplexClientError):
    """The session ended while it was still needed; ``reason`` is the server's word, or ``connection lost``."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the session is over: {reason}")
        self.reason = reason
