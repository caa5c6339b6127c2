"""Who reads what in this process, and what they vouch for together."""

from __future__ import annotations

import pytest

from duplex_es.log.api import START, EntryId
from duplex_es.log.follower import RedisFollower
from duplex_es.log.followers import REMEMBERED, Followers
from tests.log.test_follower import Log

pytestmark = pytest.mark.unit


def follower(passed: int, position: EntryId = START) -> RedisFollower:
    made = Log().follow()
    made.start(position)
    made.passed = passed
    return made


def test_nobody_vouches_for_nothing() -> None:
    assert Followers().passed("channel") == 0
    assert Followers().positions("channel") == []
    assert list(Followers().of("channel")) == []


def test_readers_vouch_for_what_all_of_them_passed() -> None:
    followers = Followers()
    for passed, seq in ((7, 40), (3, 90)):
        followers.add("channel", follower(passed, EntryId(passed, seq)))
    assert followers.passed("channel") == 3
    assert sorted(followers.positions("channel")) == [EntryId(3, 90), EntryId(7, 40)]
    assert len(list(followers.of("channel"))) == 2


def test_what_a_reader_passed_outlives_it_until_it_is_forgotten() -> None:
    followers = Followers()
    for passed in (7, 5):
        one = follower(passed)
        followers.add("channel", one)
        followers.discard("channel", one)
    assert list(followers.of("channel")) == []
    assert followers.passed("channel") == 5
    followers.forget("channel")
    assert followers.passed("channel") == 0


def test_those_who_left_are_not_remembered_for_ever() -> None:
    followers = Followers()
    for number in range(REMEMBERED + 10):
        one = follower(1)
        followers.add(f"channel-{number}", one)
        followers.discard(f"channel-{number}", one)
    assert followers.passed("channel-0") == 0
    assert followers.passed(f"channel-{REMEMBERED}") == 1
