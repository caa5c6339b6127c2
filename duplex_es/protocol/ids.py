"""The names and counters of a session, and the rule each is minted by.

Ids are derived from what they name, never drawn: the same session deciding the same things mints the same ids, which
is what makes a replay of the log comparable. Two exceptions take entropy from the caller: a session id the client did
not choose, and the ``event_id`` of a frame that has no place in the sequence.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import NewType

SessionId = NewType("SessionId", str)
"""Any non-empty string of the client's, else ``duplex-<32 hex>``."""
ItemId = NewType("ItemId", str)
"""``item_<response id>`` for an answer, ``item_<32 hex>`` for anything else, or whatever the client chose."""
ResponseId = NewType("ResponseId", str)
"""``resp_<32 hex>``; never used twice."""
CallId = NewType("CallId", str)
"""Names one function call; minted by the model."""
EventId = NewType("EventId", str)
"""``event_<32 hex>`` on frames; anything the client likes on commands."""
Incarnation = NewType("Incarnation", int)
"""How often the session id was opened before; the first is 0."""
Generation = NewType("Generation", int)
"""``attachment_generation``: the number of the socket that holds the session; the first is 1."""
Seq = NewType("Seq", int)
"""``server_event_seq``: consecutive per session from 1; the replay cursor."""
Epoch = NewType("Epoch", int)
"""The interruption fence: from 0, one up on every cancel, clear of live output, or barge-in."""
TurnId = NewType("TurnId", int)
"""Counts finished model turns from 0."""

_ENTROPY_BYTES = 16


def _digest(kind: str, *parts: str | int) -> str:
    """32 hex digits that depend on every part; parts cannot run into each other."""
    text = "\x1f".join(f"{len(str(part))}:{part}" for part in (kind, *parts))
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_ENTROPY_BYTES).hexdigest()


def derive_event_id(session_id: str, incarnation: int, seq: int) -> EventId:
    """The ``event_id`` of the frame at ``seq``: the same on every replay, on every gateway."""
    return EventId(f"event_{_digest('event', session_id, incarnation, seq)}")


def mint_response_id(session_id: str, incarnation: int, number: int) -> ResponseId:
    """The id of the session's ``number``-th response."""
    return ResponseId(f"resp_{_digest('response', session_id, incarnation, number)}")


def mint_item_id(session_id: str, incarnation: int, number: int) -> ItemId:
    """The id of the session's ``number``-th item that is not a spoken or written answer."""
    return ItemId(f"item_{_digest('item', session_id, incarnation, number)}")


def answer_item_id(response_id: str) -> ItemId:
    """The id of the one assistant message a response makes."""
    return ItemId(f"item_{response_id}")


def response_of_item(item_id: str) -> ResponseId | None:
    """The response an answer's item id names, ``None`` when it has not that form. Does not say that it exists."""
    return ResponseId(item_id.removeprefix("item_")) if item_id.startswith("item_resp") else None


def session_id_from(entropy: bytes) -> SessionId:
    """A session id for a client that gave none. ``entropy``: 16 random bytes."""
    return SessionId(f"duplex-{_hex(entropy)}")


def event_id_from(entropy: bytes) -> EventId:
    """The ``event_id`` of a frame without a ``server_event_seq``. ``entropy``: 16 random bytes."""
    return EventId(f"event_{_hex(entropy)}")


def _hex(entropy: bytes) -> str:
    if len(entropy) != _ENTROPY_BYTES:
        raise ValueError(f"an id needs {_ENTROPY_BYTES} random bytes, got {len(entropy)}")
    return entropy.hex()
