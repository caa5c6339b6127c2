"""A writer's bookkeeping: what it owes, what landed, what has waited too long, and when its memory ages."""

from __future__ import annotations

import asyncio

import pytest

from duplex_es.log.api import Record, SessionRef
from duplex_es.log.errors import LogUnavailable, TailLost
from duplex_es.log.keys import SessionKeys
from duplex_es.log.recent import RecentRecords
from duplex_es.log.writers import Clock, Right, Run, Writer, reinstatement

pytestmark = pytest.mark.unit

SESSION = SessionKeys.of(SessionRef("s", 0))


def writer(*, output: bool = True, tail: int | None = 0) -> Writer:
    stream = SESSION.output if output else SESSION.input
    return Writer(SESSION, stream, 7, RecentRecords(3.0, 1000), tail=tail)


def run(first: int, *bodies: bytes, deadline: float = 10.0) -> Run:
    return Run(first, [Record(body) for body in bodies], asyncio.get_running_loop().create_future(), deadline)


async def test_what_follows_the_tail_without_a_hole_is_owed() -> None:
    tested = writer()
    tested.runs.extend([run(1, b"1", b"2"), run(2, b"2", b"3"), run(5, b"5")])
    assert [record.body for record in tested.owed()] == [b"1", b"2", b"3"]
    assert [one.started for one in tested.runs] == [True, True, False]
    tested.tail = 2
    assert [record.body for record in tested.owed()] == [b"3"]


async def test_runs_up_to_the_tail_have_landed_and_are_remembered() -> None:
    tested = writer()
    first, second = run(1, b"1", b"2"), run(3, b"3")
    tested.runs.extend([first, second])
    tested.tail = 2
    assert not tested.resolve(0.0)
    assert (first.landed.done(), second.landed.done(), tested.recent.last) == (True, False, 2)
    tested.tail = 3
    assert tested.resolve(0.0)
    assert [record.body for record in tested.recent.after(1) or []] == [b"2", b"3"]


async def test_a_stream_whose_end_is_not_known_is_doubtful() -> None:
    assert writer(tail=None).is_doubtful(0)
    assert writer(tail=3).is_doubtful(epoch=1)
    tested = writer(tail=3)
    assert not tested.is_doubtful(0)
    tested.runs.append(run(5, b"5"))
    assert tested.is_doubtful(0), "a hole"
    tested.runs[0].started = True
    assert not tested.is_doubtful(0)


async def test_what_waited_too_long_is_given_up_and_the_end_forgotten() -> None:
    tested = writer(tail=0)
    late, early = run(1, b"1", deadline=1.0), run(2, b"2", deadline=9.0)
    tested.runs.extend([late, early])
    assert not tested.expire(0.5, LogUnavailable("away"))
    assert tested.expire(2.0, LogUnavailable("away"))
    assert tested.tail is None and list(tested.runs) == [early]
    with pytest.raises(LogUnavailable):
        late.landed.result()
    tested.fail(TailLost(0))
    with pytest.raises(TailLost):
        early.landed.result()
    early.fail(LogUnavailable("again"))  # told already


@pytest.mark.parametrize("output", [True, False])
async def test_a_generation_is_raised_again_with_what_gave_it(output: bool) -> None:
    tested = writer(output=output)
    tested.right = Right("holder", "echo", b"record", 0.0, b"token", b"recovery")
    call = reinstatement(tested, 10_000, "PUBLISH")
    assert call.name == "reinstate"
    assert call.keys[-1] == SESSION.ready("echo")
    assert call.args[1:3] == ["c" if output else "a", 7]
    assert {"holder", b"token", b"recovery", b"record", 10_000, "PUBLISH"} <= set(call.args)
    assert tested.is_of_output is output


def test_the_clock_stands_while_the_store_takes_nothing() -> None:
    now = [100.0]
    clock = Clock(lambda: now[0])
    began_s = clock.now_s()
    now[0] = 102.0
    clock.stop(began_s)  # nothing was taken since that turn began
    clock.stop(began_s + 1.0)
    now[0] = 110.0
    assert clock.now_s() == began_s
    clock.go_on()
    clock.go_on()
    assert clock.now_s() == began_s
    now[0] = 111.5
    assert clock.now_s() == began_s + 1.5
    clock.stop(clock.now_s())
    now[0] = 120.0
    clock.go_on()
    assert clock.now_s() == began_s + 1.5
