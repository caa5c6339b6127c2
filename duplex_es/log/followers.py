"""The followers of this process, by what they follow: who is to compare when a head was looked at, and who vouches."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Iterator

from .api import EntryId
from .follower import RedisFollower

REMEMBERED = 4096


class Followers:
    """Followers by channel. ``passed`` outlives them for a while, for the detach that comes after its reader left."""

    def __init__(self) -> None:
        self._here: dict[str, set[RedisFollower]] = defaultdict(set)
        self._left: OrderedDict[str, int] = OrderedDict()

    def add(self, channel: str, follower: RedisFollower) -> None:
        """``follower`` reads ``channel`` from now on."""
        self._here[channel].add(follower)

    def discard(self, channel: str, follower: RedisFollower) -> None:
        """It does not any more."""
        self._here[channel].discard(follower)
        if not self._here[channel]:
            del self._here[channel]
        self._left[channel] = min(follower.passed, self._left.pop(channel, follower.passed))
        while len(self._left) > REMEMBERED:
            self._left.popitem(last=False)

    def of(self, channel: str) -> Iterator[RedisFollower]:
        """Those that read ``channel`` now."""
        yield from tuple(self._here.get(channel, ()))

    def passed(self, channel: str) -> int:
        """The newest fence that every reader of ``channel`` has passed without a seq that was used again."""
        return min((follower.passed for follower in self.of(channel)), default=self._left.get(channel, 0))

    def positions(self, channel: str) -> list[EntryId]:
        """The newest entry that each reader of ``channel`` was given."""
        return [follower.position for follower in self.of(channel)]

    def forget(self, channel: str) -> None:
        """Whoever read there has said goodbye."""
        self._left.pop(channel, None)
