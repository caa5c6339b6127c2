"""What the opening command holds beyond the settings: which card of a model a session gets, and the client's voice."""

from __future__ import annotations

from duplex_es.log.api import START, SessionLog, SessionRef
from duplex_es.log.errors import PositionGone
from duplex_es.model import ModelInfo
from duplex_es.protocol import Plain, ProtocolError, read_config
from duplex_es.protocol.records import OpenSession, RecordUnreadable, unpack_input

OPENING_WITHIN = 8
"""The opening is among the first inputs of a session: behind its attachment, before anything a client says."""


def card_for(info: ModelInfo, settings: Plain) -> ModelInfo:
    """The card of a session that opens with ``settings``: a model may need the client's opt-in to its native lane."""
    if info.without_opt_in is None:
        return info
    try:
        extra_body = read_config(settings).extra_body
    except ProtocolError:
        return info  # The session does not open.
    opted_in = isinstance(extra_body, dict) and extra_body.get("native_duplex") is True
    return info if opted_in else info.without_opt_in


def reference_voice(settings: Plain) -> str | None:
    """The voice the client gave with its opening. It stays in the input: no fact repeats what may be megabytes."""
    said = settings.get("ref_audio")
    return said if isinstance(said, str) and said else None


async def opening_voice(log: SessionLog, ref: SessionRef) -> str | None:
    """The client's voice of a session that was opened before, ``None`` too when the opening cannot be read any more.

    Raises: SessionUnknown.
    """
    opening = await find_opening(log, ref)
    return None if opening is None else reference_voice(opening.session)


async def find_opening(log: SessionLog, ref: SessionRef) -> OpenSession | None:
    """The opening command of a session, ``None`` when it cannot be read any more. Raises: SessionUnknown."""
    try:
        entries = await log.read_input(ref, START, limit=OPENING_WITHIN, audio=False)
    except PositionGone:
        return None
    for entry in entries:
        try:
            said = unpack_input(entry.body).said
        except RecordUnreadable:
            continue
        if isinstance(said, OpenSession):
            return said
    return None
