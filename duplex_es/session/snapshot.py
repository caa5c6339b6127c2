"""A session's whole state as bytes, so that a successor need not fold its log from the first record.

A MessagePack map of ``v`` and ``session``; what comes back is equal to what went in. A field that is added later needs
a default, as in every stored struct: an older snapshot gets it, and an older build leaves the newer one's field out.
What an older build may not leave out, or reads as something else, raises ``VERSION`` and adds the step from the version
before it to ``UPCASTS``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from .state import Session

VERSION = 1
Upcast = Callable[[dict[str, Any]], dict[str, Any]]
UPCASTS: dict[int, Upcast] = {}
"""Version → the step that makes a plain state of it one of the version after."""


class SnapshotUnreadable(Exception):
    """This build cannot read the snapshot: a later one wrote it, or it is damaged."""


class _Packed(msgspec.Struct, frozen=True):
    v: int
    session: msgspec.Raw


_PACK = msgspec.msgpack.Encoder()
_ENVELOPE = msgspec.msgpack.Decoder(_Packed)
_STATE = msgspec.msgpack.Decoder(Session)


def pack_session(session: Session) -> bytes:
    """The state as ``unpack_session`` reads it."""
    return _PACK.encode(_Packed(VERSION, msgspec.Raw(_PACK.encode(session))))


def unpack_session(packed: bytes | msgspec.Raw) -> Session:
    """The state in ``packed``, brought up to this version. Raises: SnapshotUnreadable."""
    try:
        found = _ENVELOPE.decode(packed)
        if found.v == VERSION:
            return _STATE.decode(found.session)
        return msgspec.convert(upcast(msgspec.msgpack.decode(found.session), found.v), Session)
    except msgspec.MsgspecError as error:
        raise SnapshotUnreadable(f"a stored state cannot be read: {error}") from error


def upcast(plain: dict[str, Any], version: int) -> dict[str, Any]:
    """``plain``, a state of ``version``, as this version has it. Raises: SnapshotUnreadable for one not known here."""
    for step in range(version, VERSION):
        if step not in UPCASTS:
            break
        plain = UPCASTS[step](plain)
    else:
        if version <= VERSION:
            return plain
    raise SnapshotUnreadable(f"a stored state has version {version}; this build reads {VERSION}")
