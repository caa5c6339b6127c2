"""How far this process knows a log to reach."""

from __future__ import annotations

import pytest

from duplex_es.log.api import START, EntryId, SessionRef
from duplex_es.log.followers import Followers
from duplex_es.log.keys import SessionKeys
from duplex_es.log.positions import REMEMBERED, Known, Positions
from tests.log.test_followers import follower

pytestmark = pytest.mark.unit

SESSION = SessionKeys.of(SessionRef("s", 0))


def test_nothing_is_known_of_a_stream_that_nobody_touched() -> None:
    assert Positions().known(SESSION, Followers()) == Known(START, START)


def test_the_newest_write_counts_also_when_it_is_repeated() -> None:
    positions = Positions()
    for first, count in ((1, 3), (4, 4), (5, 1), (90, 0)):
        positions.wrote(SESSION.output.channel, 2, first, count)
    for generation, number in ((1, 9), (2, 1)):
        positions.wrote(SESSION.input.channel, generation, number, 1)
    assert positions.known(SESSION, Followers()) == Known(EntryId(2, 7), EntryId(2, 1))


def test_what_was_read_counts_as_what_was_written_does() -> None:
    positions, followers = Positions(), Followers()
    positions.wrote(SESSION.output.channel, 3, 5, 3)
    followers.add(SESSION.output.channel, follower(0, EntryId(0, 90)))  # began under a fence that it does not know
    followers.add(SESSION.input.channel, follower(0, EntryId(2, 1)))
    assert positions.known(SESSION, followers) == Known(EntryId(0, 90), EntryId(2, 1))


def test_old_sessions_are_forgotten() -> None:
    positions = Positions()
    positions.wrote(SESSION.output.channel, 1, 1, 1)
    for number in range(REMEMBERED):
        positions.wrote(f"channel-{number}", 1, 1, 1)
    assert positions.known(SESSION, Followers()).output == START
