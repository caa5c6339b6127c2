"""One text frame to one command, within the gateway's own size limit."""

from __future__ import annotations

from duplex_es.protocol import MAX_EVENT_BYTES, Command, ProtocolError
from duplex_es.protocol.dialects import DUPLEX, read_command


def read_event(text: str, max_event_bytes: int = MAX_EVENT_BYTES, dialect: str = DUPLEX) -> Command:
    """The command in ``text``. Raises: ProtocolError as ``decode_command``, ``event_too_large`` above the limit."""
    if max_event_bytes < MAX_EVENT_BYTES and _is_longer(text, max_event_bytes):
        raise ProtocolError(
            "event_too_large", f"The event has more than {max_event_bytes} bytes; send audio in smaller pieces."
        )
    return read_command(text, dialect)


def _is_longer(text: str, limit: int) -> bool:
    """Whether ``text`` takes more than ``limit`` bytes of UTF-8; encoded only when its length leaves that open."""
    if len(text) > limit or len(text) * 4 <= limit:
        return len(text) > limit
    return len(text.encode("utf-8", "surrogatepass")) > limit
