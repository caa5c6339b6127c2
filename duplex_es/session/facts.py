"""Facts as they lie in a record: MessagePack maps, named by their ``fact`` key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce
from operator import or_

import msgspec

from .events import FACTS, Fact

_PACK = msgspec.msgpack.Encoder()
_UNPACK: msgspec.msgpack.Decoder[Fact] = msgspec.msgpack.Decoder(reduce(or_, FACTS.values()))


class LogCorrupt(Exception):
    """A stored fact is unknown to this build or damaged; folding on would make up a session that never was."""


def pack_fact(fact: Fact) -> msgspec.Raw:
    """One fact, ready for ``pack_output``."""
    return msgspec.Raw(_PACK.encode(fact))


def unpack_facts(packed: Iterable[msgspec.Raw]) -> Iterator[Fact]:
    """The facts of one record, in order. Raises: LogCorrupt."""
    for raw in packed:
        try:
            yield _UNPACK.decode(raw)
        except msgspec.MsgspecError as error:
            raise LogCorrupt(f"a stored fact cannot be read: {error}") from error
