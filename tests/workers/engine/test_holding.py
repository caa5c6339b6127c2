"""The line to the process that owns memory."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from tests.support.held import Lines, holder
from workers.engine.holding import Holding, HoldingGone
from workers.engine.holding_memory import NoMemory

pytestmark = pytest.mark.unit


@pytest.fixture
def lines() -> Iterator[Lines]:
    with holder() as found:
        yield found


def test_a_block_is_made_once_and_found_by_everybody_with_what_was_said_of_it(lines: Lines) -> None:
    first, second = lines(), lines()
    assert first.find("weights") is None
    made = first.make("weights", 10_000, "cpu")
    assert (made.size, made.place, made.mark) == (10_000, "cpu", None)
    made.view[9990:] = b"x" * 10
    first.mark("weights", "full")
    found = second.find("weights")
    assert found is not None and (found.size, found.place, found.mark) == (10_000, "cpu", "full")
    assert found.view[9985:] == b"\0" * 5 + b"x" * 10


def test_what_was_written_stays_when_who_wrote_it_is_gone(lines: Lines) -> None:
    first = lines()
    first.make("weights", 100, "cpu").view[:3] = b"abc"
    first.close()
    found = lines().find("weights")
    assert found is not None and found.view[:3] == b"abc"


def test_a_block_that_is_made_again_is_empty_and_unmarked(lines: Lines) -> None:
    line = lines()
    line.make("weights", 100, "cpu").view[:3] = b"abc"
    line.mark("weights", "full")
    again = line.make("weights", 200, "cpu")
    assert (again.size, again.mark, again.view[:3]) == (200, None, b"\0\0\0")


def test_what_cannot_be_made_is_told_and_the_line_goes_on(lines: Lines) -> None:
    line = lines()
    with pytest.raises(NoMemory, match="it is cpu, or cuda:N"):
        line.make("weights", 1, "nowhere")
    with pytest.raises(NoMemory, match=r"libcuda\.so\.1"):
        line.make("weights", 1, "cuda:0")
    assert line.find("weights") is None


def test_a_holder_that_is_gone_is_told_from_one_that_found_nothing() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    theirs.close()
    with pytest.raises(HoldingGone):
        Holding(ours).find("weights")
