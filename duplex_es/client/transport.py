"""Sockets as the client sees them, and the URL it dials.

A ``Transport`` sends and receives whole text frames and may break in its own words. The client holds it as a ``Line``,
which breaks in one way only.
"""

from __future__ import annotations

import ipaddress
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Literal, Protocol
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from .errors import DuplexConnectionError

MAX_FRAME_BYTES = 64 * 1024 * 1024
DEFAULT_PATH = "/v1/realtime"
SCHEMES = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}


class Transport(Protocol):
    """One open connection. ``send`` waits while the other side is behind, so that nothing piles up here."""

    async def send(self, message: str, /) -> None:
        """Hand over one text frame."""

    async def recv(self) -> str | bytes:
        """The next frame, in order."""

    async def close(self) -> None:
        """End the connection. Idempotent."""


Connect = Callable[[str], Awaitable[Transport]]
"""Opens a transport to a URL."""


def breaks() -> tuple[type[BaseException], ...]:
    """What says that a connection could not be made or is gone. (A timeout is an OSError.)

    ``websockets`` is imported by the first connection only, and what is not imported raises nothing.
    """
    websockets = sys.modules.get("websockets.exceptions")
    known = (OSError, EOFError, DuplexConnectionError)
    return known if websockets is None else (*known, websockets.WebSocketException)


class Line:
    """A transport that, whatever kind it is, breaks with DuplexConnectionError and closes without a word."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    @classmethod
    async def dial(cls, connect: Connect, url: str) -> Line:
        """A line to ``url``. Raises: DuplexConnectionError."""
        try:
            return cls(await connect(url))
        except breaks() as error:
            raise DuplexConnectionError(words(error), retry_after_ms=retry_after_ms(error)) from error

    async def send(self, message: str) -> None:
        """Hand over one text frame. Raises: DuplexConnectionError."""
        try:
            await self._transport.send(message)
        except breaks() as error:
            raise DuplexConnectionError(words(error)) from error

    async def recv(self) -> str | bytes:
        """The next frame. Raises: DuplexConnectionError when there will be none."""
        try:
            return await self._transport.recv()
        except breaks() as error:
            raise DuplexConnectionError(words(error)) from error

    async def close(self) -> None:
        """End the connection. Idempotent."""
        with suppress(*breaks()):
            await self._transport.close()


def retry_after_ms(error: BaseException) -> float | None:
    """What the ``Retry-After`` header of a refused handshake says, if it is there and counts seconds."""
    headers = getattr(getattr(error, "response", None), "headers", {})
    try:
        return float(headers["Retry-After"]) * 1000
    except (KeyError, ValueError):
        return None


def words(error: BaseException) -> str:
    """What ``error`` says; its name when it says nothing."""
    return str(error) or type(error).__name__


def build_realtime_url(
    url: str,
    model: str | None,
    *,
    autostart: bool | None = None,
    native_duplex: bool | None = None,
    session_id: str | None = None,
    extra_query: Mapping[str, str] | None = None,
) -> str:
    """``url`` for WebSocket with these query parameters; what it already says stays. For programs without DuplexClient.

    Raises: ValueError for a scheme that is neither ws nor http.
    """
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES or not parts.netloc:
        raise ValueError(f"{url!r} is not a ws:// or wss:// URL")
    flags = {"autostart": autostart, "native_duplex": native_duplex}
    query = {"duplex": "1"}
    query |= {"model": model} if model else {}
    query |= {"session_id": session_id} if session_id else {}
    query |= {name: "1" if value else "0" for name, value in flags.items() if value is not None}
    query |= dict(extra_query or {})
    query |= dict(parse_qsl(parts.query, keep_blank_values=True))
    return urlunsplit((SCHEMES[parts.scheme], parts.netloc, parts.path, urlencode(query), parts.fragment))


def session_url(url: str, model: str) -> str:
    """The URL that DuplexClient dials: the usual path if there is none, and never a session that starts by itself.

    Raises: ValueError as ``build_realtime_url``.
    """
    parts = urlsplit(build_realtime_url(url, model))
    query = {**dict(parse_qsl(parts.query, keep_blank_values=True)), "autostart": "0"}
    path = parts.path if parts.path not in ("", "/") else DEFAULT_PATH
    return urlunsplit((parts.scheme, parts.netloc, path, urlencode(query), ""))


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
        # Half of what importing this package would cost otherwise.
        from websockets.asyncio.client import connect

        proxy: Literal[True] | None = None if is_loopback(url) else True
        return await connect(url, max_size=MAX_FRAME_BYTES, compression=None, open_timeout=open_timeout_s, proxy=proxy)

    return open_websocket
