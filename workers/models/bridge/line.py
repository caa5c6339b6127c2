"""One WebSocket to a realtime server: commands out, frames in, in the words of the wire."""

from __future__ import annotations

import ipaddress
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import msgspec
from msgspec import UNSET, UnsetType
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus, WebSocketException

from duplex_es.protocol import Command, FlatError, Frame, FrameUnreadable, decode_frame, encode_command

MAX_FRAME_BYTES = 64 * 1024 * 1024
BUSY_STATUS = (429, 503)
BREAKS = (OSError, EOFError, WebSocketException)
"""What says that a connection could not be made or is gone. (A timeout is an OSError.)"""


class LineLost(Exception):
    """The connection could not be made or is gone. ``busy``: the server turned it away for want of room."""

    def __init__(self, message: str, *, busy: bool = False) -> None:
        super().__init__(message)
        self.busy = busy


class Strange(msgspec.Struct, frozen=True):
    """A frame that this build does not know, with what every frame has."""

    type: str = ""
    server_event_seq: int | UnsetType = UNSET


Heard = Frame | FlatError | Strange

_READ_STRANGE = msgspec.json.Decoder(Strange)


class Line:
    """One open connection."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket

    @classmethod
    async def dial(cls, url: str, *, model: str | None, key: str | None, timeout_s: float) -> Line:
        """Connect; nothing is said yet, and the server begins nothing by itself. Raises: LineLost."""
        try:
            socket = await connect(
                session_url(url, model),
                additional_headers={"Authorization": f"Bearer {key}"} if key else None,
                compression=None,
                max_size=MAX_FRAME_BYTES,
                open_timeout=timeout_s,
                proxy=None if is_loopback(url) else True,
            )
        except InvalidStatus as error:
            status = error.response.status_code
            raise LineLost(f"it answered {status}", busy=status in BUSY_STATUS) from error
        except BREAKS as error:
            raise LineLost(str(error) or type(error).__name__) from error
        return cls(socket)

    async def say(self, command: Command | str) -> None:
        """Send one command. Raises: LineLost."""
        try:
            await self._socket.send(command if isinstance(command, str) else encode_command(command))
        except BREAKS as error:
            raise LineLost(str(error) or type(error).__name__) from error

    async def hear(self) -> Heard:
        """The next frame. Raises: LineLost when there will be none."""
        while True:
            try:
                text = await self._socket.recv()
            except BREAKS as error:
                raise LineLost(str(error) or type(error).__name__) from error
            try:
                return decode_frame(text)
            except FrameUnreadable:
                try:
                    return _READ_STRANGE.decode(text)
                except msgspec.MsgspecError:
                    continue

    async def close(self) -> None:
        """End the connection. Idempotent."""
        try:
            await self._socket.close()
        except BREAKS:
            return


def session_url(url: str, model: str | None) -> str:
    """``url`` with what keeps the server from beginning a session by itself; what it says already stays."""
    parts = urlsplit(url)
    query = {"duplex": "1", "autostart": "0", **({"model": model} if model else {}), **dict(parse_qsl(parts.query))}
    return urlunsplit((parts.scheme, parts.netloc, parts.path or "/v1/realtime", urlencode(query), ""))


def is_loopback(url: str) -> bool:
    """Whether ``url`` names this machine, which no proxy can reach."""
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
