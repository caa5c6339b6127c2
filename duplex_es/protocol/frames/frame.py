"""What every frame has, whatever its family."""

from __future__ import annotations

from typing import ClassVar

import msgspec
from msgspec import UNSET, UnsetType


class ServerEvent(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """One thing a client hears.

    ``event_id`` and ``server_event_seq`` are put on where the frame leaves for a socket; a frame has no
    ``server_event_seq`` when it is not part of the replayable sequence. ``TIER``: 1 is plain OpenAI Realtime, 2 an
    OpenAI name with more fields, 3 a name OpenAI does not have.
    """

    TIER: ClassVar[int]

    event_id: str | UnsetType = UNSET
    server_event_seq: int | UnsetType = UNSET


def wire_name(said: msgspec.Struct | type[msgspec.Struct]) -> str:
    """The ``type`` a frame or a command, or a class of them, has on the wire."""
    return str(said.__struct_config__.tag)
