"""Streams, hashes, sets and sorted sets as a Redis store keeps them: what the log asks of one, with its error texts."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

StreamId = tuple[int, int]
HIGHEST = 2**64 - 1


class Refused(Exception):
    """An error reply, its code first."""


NOT_ABOVE = "ERR The ID specified in XADD is equal or smaller than the target stream top item"
WRONG_TYPE = "WRONGTYPE Operation against a key holding the wrong kind of value"


class Stream:
    """Entries in id order, and the last id there ever was."""

    __slots__ = ("added", "bodies", "deleted", "ids", "last")

    def __init__(self) -> None:
        self.ids: list[StreamId] = []
        self.bodies: list[list[bytes]] = []
        self.last: StreamId = (0, 0)
        self.added = 0
        self.deleted: StreamId = (0, 0)

    def add(self, entry_id: StreamId, fields: list[bytes]) -> None:
        """Append. Raises: Refused for an id that is not above the last one."""
        if entry_id <= self.last:
            raise Refused(NOT_ABOVE)
        self.ids.append(entry_id)
        self.bodies.append(fields)
        self.last = entry_id
        self.added += 1

    def drop(self, entry_id: StreamId) -> int:
        """Delete one entry; how many there were."""
        at = bisect_left(self.ids, entry_id)
        if at == len(self.ids) or self.ids[at] != entry_id:
            return 0
        del self.ids[at], self.bodies[at]
        self.deleted = max(self.deleted, entry_id)
        return 1

    def trim_below(self, entry_id: StreamId) -> int:
        """Delete all entries below an id."""
        at = bisect_left(self.ids, entry_id)
        if at:
            self.deleted = max(self.deleted, self.ids[at - 1])
            del self.ids[:at], self.bodies[:at]
        return at

    def between(self, low: bytes, high: bytes, count: int | None, *, backward: bool = False) -> list[list[object]]:
        """XRANGE, or XREVRANGE with ``backward``; bounds as in the commands."""
        first, after = _bound(low, 0)
        last, before = _bound(high, HIGHEST)
        begin = bisect_right(self.ids, first) if after else bisect_left(self.ids, first)
        end = bisect_left(self.ids, last) if before else bisect_right(self.ids, last)
        places = range(begin, end)
        if backward:
            places = places[::-1]
        if count is not None:
            places = places[:count]
        return [[show(self.ids[at]), self.bodies[at]] for at in places]


def _bound(text: bytes, missing: int) -> tuple[StreamId, bool]:
    exclusive = text[:1] == b"("
    text = text[1:] if exclusive else text
    if text == b"-":
        return (0, 0), False
    if text == b"+":
        return (HIGHEST, HIGHEST), False
    return read_id(text, missing), exclusive


def read_id(text: bytes, missing: int = 0) -> StreamId:
    """``7-41``; a lone number gets ``missing`` as its second. Raises: Refused."""
    major, _, minor = text.partition(b"-")
    try:
        return int(major), int(minor) if minor else missing
    except ValueError:
        raise Refused("ERR Invalid stream ID specified as stream command argument") from None


def show(entry_id: StreamId) -> bytes:
    """As the store writes it."""
    return b"%d-%d" % entry_id


def score_of(text: bytes) -> float:
    """A score as a command writes it."""
    return float(text)


def show_score(score: float) -> bytes:
    """A score as the store answers it."""
    if score != score or score in (float("inf"), float("-inf")):
        return b"inf" if score > 0 else b"-inf"
    return b"%.17g" % score


def score_bound(text: bytes) -> tuple[float, bool]:
    """A bound of a range by score, and whether it is exclusive."""
    if text[:1] == b"(":
        return float(text[1:]), True
    return float(text), False
