"""A crowd at the door: a few at a time, the rest in order, and nobody is lost."""

from __future__ import annotations

import asyncio

import pytest

from duplex_es.protocol import ProtocolError
from gateway import gate as module
from gateway.gate import Gate, Ticket
from tests.gateway.stage import until

pytestmark = pytest.mark.unit


async def passes(gate: Gate, order: list[int], number: int, leave: asyncio.Event) -> None:
    """One caller, who stays inside until told."""
    ticket = gate.ticket()
    await ticket.admitted()
    order.append(number)
    await leave.wait()
    ticket.release()


async def test_a_few_are_let_in_and_the_rest_follow_in_order() -> None:
    gate, order = Gate(2, 100, 60.0), []
    leaves = [asyncio.Event() for _ in range(8)]
    async with asyncio.TaskGroup() as group:
        for number in range(8):
            group.create_task(passes(gate, order, number, leaves[number]))
        await until(lambda: order == [0, 1])
        leaves[1].set()
        await until(lambda: order == [0, 1, 2])
        for leave in leaves:
            leave.set()
    assert order == list(range(8))
    await gate.ticket().admitted()  # And the door stands open again.


async def test_a_thousand_at_once_all_get_in_eight_at_a_time() -> None:
    gate, inside, counts = Gate(8, 1_000, 60.0), set(), []

    async def client(number: int) -> None:
        ticket = gate.ticket()
        await ticket.admitted()
        inside.add(number)
        counts.append(len(inside))
        await asyncio.sleep(0)
        inside.discard(number)
        ticket.release()

    await asyncio.gather(*(client(number) for number in range(1_000)))
    assert (len(counts), max(counts), inside) == (1_000, 8, set())


async def test_a_crowd_beyond_the_bound_is_told_when_to_come_again() -> None:
    gate = Gate(1, 1, 60.0)
    await gate.ticket().admitted()
    waits = asyncio.create_task(gate.ticket().admitted())
    await asyncio.sleep(0)
    told = set()
    for _ in range(20):
        with pytest.raises(ProtocolError) as refused:
            await gate.ticket().admitted()
        assert refused.value.code == "duplex_session_busy"
        assert refused.value.retry_after_ms is not None
        assert module.AGAIN_MS[0] <= refused.value.retry_after_ms <= module.AGAIN_MS[1]
        told.add(refused.value.retry_after_ms)
    assert len(told) > 1, "a crowd that is told one time comes back as a crowd"
    waits.cancel()


async def test_one_who_waited_too_long_is_told_too_and_takes_no_place() -> None:
    gate = Gate(1, 5, 0.01)
    first = gate.ticket()
    await first.admitted()
    with pytest.raises(ProtocolError):
        await gate.ticket().admitted()
    first.release()
    await asyncio.wait_for(gate.ticket().admitted(), 30)


async def test_one_who_gives_up_while_waiting_is_passed_over() -> None:
    gate, order = Gate(1, 5, 60.0), []
    first, leave = gate.ticket(), asyncio.Event()
    await first.admitted()
    gone = asyncio.create_task(passes(gate, order, 1, leave))
    stays = asyncio.create_task(passes(gate, order, 2, leave))
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.gather(gone, return_exceptions=True)
    first.release()
    await until(lambda: order == [2])
    leave.set()
    await stays


async def test_one_who_gives_up_at_the_moment_its_turn_comes_gives_it_on() -> None:
    gate = Gate(1, 5, 60.0)
    first = gate.ticket()
    await first.admitted()
    gone = asyncio.create_task(gate.ticket().admitted())
    await asyncio.sleep(0)
    first.release()
    gone.cancel()
    await asyncio.gather(gone, return_exceptions=True)
    await asyncio.wait_for(gate.ticket().admitted(), 30)


async def test_a_ticket_that_was_never_used_or_is_used_up_gives_nothing_back() -> None:
    gate = Gate(1, 0, 60.0)
    ticket: Ticket = gate.ticket()
    ticket.release()
    await ticket.admitted()
    ticket.release()
    ticket.release()
    await gate.ticket().admitted()
    with pytest.raises(ProtocolError):
        await gate.ticket().admitted()
