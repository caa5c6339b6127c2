"""The few things the log itself packs, as MessagePack maps: the record of a claim, and a worker's card."""

from __future__ import annotations

import time

import msgspec

from .api import WorkerCard

_pack = msgspec.msgpack.Encoder().encode
_card = msgspec.msgpack.Decoder(WorkerCard)


def claim_record(worker: str, model: str) -> bytes:
    """The body of output entry ``<fence>-0``: who claimed the session, and when by this machine's clock (unix ms)."""
    return _pack({"v": 1, "at_ms": int(time.time() * 1000), "claimed": {"worker": worker, "model": model}})


def pack_card(card: WorkerCard) -> bytes:
    """A worker's card as stored in the fleet."""
    return _pack(card)


def unpack_card(data: bytes) -> WorkerCard:
    """Read what ``pack_card`` wrote; fields that a newer writer added are ignored."""
    return _card.decode(data)
