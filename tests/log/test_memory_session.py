"""What the memory log keeps of one session, and what it lets go. Its promises: tests/conformance."""

from __future__ import annotations

import asyncio

import pytest

from duplex_es.log.api import START, Entry, EntryId, SessionRef
from duplex_es.log.errors import PositionAhead, PositionGone
from duplex_es.log.memory_session import MemorySession

pytestmark = pytest.mark.unit


def session(last_seq: int = 6) -> MemorySession:
    """Two claims, three frames each; the input of one attachment."""
    made = MemorySession(SessionRef("s", 0), "echo", b"token")
    for seq in range(1, last_seq + 1):
        if seq in (1, 4):
            made.raise_fence()
            made.add_output(Entry(EntryId(made.fence, 0), b"claimed"))
        made.add_output(Entry(EntryId(made.fence, seq), b"%d" % seq, b"pcm"))
    for index in range(6):
        made.add_input(Entry(EntryId(1, index), b"%d" % index, b"pcm"))
    return made


def test_a_new_session_has_nothing_to_read_and_nothing_to_miss() -> None:
    new = MemorySession(SessionRef("s", 0), "echo", b"token")
    assert (new.first_seq, new.last_seq, new.last_input) == (1, 0, START)
    new.check_position(0)
    with pytest.raises(PositionAhead):
        new.check_position(1)


def test_a_claims_record_goes_with_what_was_written_before_it() -> None:
    made = session()
    made.trim_history(START, 4)
    assert [str(entry.id) for entry in made.output] == ["2-4", "2-5", "2-6"]
    assert list(made.first_seqs) == [2]
    made.trim_history(EntryId(1, 3), 7)
    assert made.output == []
    assert (made.first_seq, made.last_seq, made.trimmed_input) == (7, 6, EntryId(1, 2))


def test_dropping_audio_keeps_the_records_and_remembers_how_far_it_went() -> None:
    made = session()
    made.trim_audio(EntryId(1, 2), 4)
    assert [entry.audio for entry in made.output if entry.id.number] == [None] * 3 + [b"pcm"] * 3
    assert [entry.audio for entry in made.input] == [None] * 2 + [b"pcm"] * 4
    assert (made.silenced_seq, made.first_seq) == (3, 1)


@pytest.mark.parametrize(("after_seq", "first_available"), [(0, 5), (3, 5), (4, None), (6, None)])
def test_the_strictest_of_three_limits_counts(after_seq: int, first_available: int | None) -> None:
    made = session()
    made.trim_history(START, 2)
    made.acknowledged_seq = 4
    made.trim_audio(START, 3)
    if first_available is None:
        made.check_position(after_seq)
        return
    with pytest.raises(PositionGone) as gone:
        made.check_position(after_seq)
    assert gone.value.first_available == first_available


def test_an_attachment_counts_until_its_lease_is_over() -> None:
    made = session()
    made.attached, made.attached_until_s, made.left_s = True, 10.0, 0.0
    assert made.unattached_from_s == 10.0
    assert made.head(9.9).attached
    assert not made.head(10.0).attached
    made.attached, made.left_s = False, 7.0
    assert made.unattached_from_s == 7.0
    assert not made.head(5.0).attached


async def test_a_change_wakes_everybody_who_waits_and_nobody_who_comes_later() -> None:
    made = session()
    waiting = [asyncio.ensure_future(made.wake.wait()) for _ in range(2)]
    await asyncio.sleep(0)
    made.changed()
    await asyncio.wait_for(asyncio.gather(*waiting), 30)
    assert not made.wake.is_set()


def test_an_older_token_leaves_those_good_that_were_given_out_since() -> None:
    made = MemorySession(SessionRef("s", 0), "echo", b"1")
    for presented, following in ((b"1", b"2"), (b"1", b"3"), (b"1", b"4")):
        made.rotate_token(presented, following)
    assert [made.is_good(digest, attached=True) for digest in (b"1", b"2", b"3", b"4")] == [False, True, True, True]
    assert made.is_good(b"1", attached=False)
    made.rotate_token(b"3", b"5")
    assert [made.is_good(b"%d" % n, attached=False) for n in range(1, 6)] == [False, False, True, True, True]
    made.confirm_token()
    assert [made.is_good(digest, attached=False) for digest in (b"3", b"4", b"5")] == [False, False, True]
