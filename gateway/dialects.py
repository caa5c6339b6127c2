"""How a socket is spoken to: the dialect its client chose, and the texts of what it is told.

The log holds one stream, in the dialect ``duplex``; what a socket hears of it is a projection, made here and nowhere
else.
"""

from __future__ import annotations

import os

from starlette.websockets import WebSocket

from duplex_es.protocol import Command, Frame, ProtocolError, event_id_from
from duplex_es.protocol.dialects import DUPLEX, Listener, choose_dialect, dialect_of, render_handshake_error

Told = Frame | ProtocolError
"""A frame, or an error at the door, which seed clients are told in a flat shape."""


def asked_dialect(websocket: WebSocket) -> str | None:
    """The dialect an upgrade asks for, ``None`` when the first event will tell.

    Raises: ProtocolError ``unsupported`` for one that nobody speaks.
    """
    offered = websocket.scope.get("subprotocols", ())
    return choose_dialect(websocket.url.path, websocket.query_params, websocket.headers, offered)


class Voice:
    """One socket's dialect, and everything it is told in it.

    ``asked`` by the upgrade is final. Without that, the client's first readable event decides (``settle``), and
    ``provisional`` is spoken until then.
    """

    def __init__(self, asked: str | None = DUPLEX, provisional: str = DUPLEX) -> None:
        self.settled = asked is not None
        self._listener = Listener(asked or provisional)

    @property
    def dialect(self) -> str:
        """What is spoken now."""
        return self._listener.dialect

    def speak(self, dialect: str) -> None:
        """Speak ``dialect`` from now on, unless the client has decided already."""
        if not self.settled and dialect != self.dialect:
            self._listener = Listener(dialect)

    def settle(self, event: Command) -> None:
        """The client said ``event``. Only its first one decides, and only where the upgrade request did not."""
        if not self.settled:
            self.speak(dialect_of(event))
            self.settled = True

    def texts(self, told: Told, *, event_id: str | None = None, seq: int | None = None) -> list[str]:
        """What the socket is sent for ``told``, often nothing; without ``event_id`` under a random one."""
        name = event_id or event_id_from(os.urandom(16))
        if isinstance(told, ProtocolError):
            return [render_handshake_error(told, self.dialect, event_id=name)]
        return self._listener.hear(told, event_id=name, seq=seq)
