"""Sockets as the client sees them, and the URL it dials.

A transport sends and receives whole text frames. Anything it raises of ``BROKEN`` means that the connection is gone.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable
from typing import Literal, Protocol
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from .errors import DuplexConnectionError

MAX_FRAME_BYTES = 64 * 1024 * 1024
DEFAULT_PATH = "/v1/realtime"
SCHEMES = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}

BROKEN = (OSError, EOFError, WebSocketException, DuplexConnectionError)
"""What a transport raises when the connection could not be made or is gone (a timeout is an OSError)."""


class Transport(Protocol):
    """One open connection."""

    async def send(self, message: str, /) -> None:
        """Hand over one text frame. Raises: one of ``BROKEN``."""

    async def recv(self) -> str | bytes:
        """The next frame, in order. Raises: one of ``BROKEN`` when there will be none."""

    async def close(self) -> None:
        """End the connection. Idempotent."""


Connect = Callable[[str], Awaitable[Transport]]
"""Opens a transport to a URL. Raises: one of ``BROKEN``."""


def build_realtime_url(url: str, model: str) -> str:
    """The URL to dial: default path, ``duplex`` and ``model`` where absent, and never an autostarted session.

    Raises: ValueError for a scheme that is neither ws nor http.
    """
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES or not parts.netloc:
        raise ValueError(f"{url!r} is not a ws:// or wss:// URL")
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    query = {"duplex": "1", "model": model, **query, "autostart": "0"}
    path = parts.path if parts.path not in ("", "/") else DEFAULT_PATH
    return urlunsplit((SCHEMES[parts.scheme], parts.netloc, path, urlencode(query), ""))


def is_loopback(url: str) -> bool:
    """Whether ``url`` names this very machine, which no proxy can reach."""
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def websocket_connector(*, open_timeout_s: float) -> Connect:
    """A ``Connect`` over WebSocket, without per-message compression: audio does not shrink."""

    async def open_websocket(url: str) -> Transport:
        proxy: Literal[True] | None = None if is_loopback(url) else True
        return await connect(url, max_size=MAX_FRAME_BYTES, compression=None, open_timeout=open_timeout_s, proxy=proxy)

    return open_websocket
