"""How far this process knows a session's log to reach: what it wrote there, and what it was shown."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from .api import START, EntryId
from .followers import Followers
from .keys import SessionKeys

REMEMBERED = 8192


@dataclass(frozen=True, slots=True)
class Known:
    """The newest entries of both streams that anybody here wrote or was given."""

    output: EntryId
    input: EntryId


class Positions:
    """The newest entry that was written to each stream, of those streams that were written to last."""

    def __init__(self) -> None:
        self._written: OrderedDict[str, EntryId] = OrderedDict()

    def wrote(self, channel: str, generation: int, first: int, count: int) -> None:
        """The append of ``count`` entries from ``first`` on landed."""
        entry_id = EntryId(generation, first + count - 1)
        if count and entry_id > self._written.get(channel, START):
            self._written[channel] = entry_id
            self._written.move_to_end(channel)
            if len(self._written) > REMEMBERED:
                self._written.popitem(last=False)

    def known(self, session: SessionKeys, followers: Followers) -> Known:
        """How far both streams reach, as far as this process and its ``followers`` have seen."""
        output, into = (self._all(stream.channel, followers) for stream in (session.output, session.input))
        # Seqs do not restart, and a reader need not know the fence that it began under.
        return Known(max(output, key=lambda position: position.number), max(into))

    def _all(self, channel: str, followers: Followers) -> Sequence[EntryId]:
        return [self._written.get(channel, START), *followers.positions(channel)]
