"""The stand-in store: the real log on it answers random programs as the memory log does, and faults do as they say."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from redis.exceptions import ConnectionError as StoreLost
from redis.exceptions import ReadOnlyError, ResponseError

from duplex_es.log.memory import MemoryLog
from duplex_es.log.redis import RedisLog
from duplex_es.testing.log_programs import run_program
from tests.simulation.faults import READONLY
from tests.simulation.fleet import log_settings
from tests.simulation.loop import SimulatedLoop
from tests.simulation.node import Connection, Node
from tests.simulation.world import installed

pytestmark = pytest.mark.unit


def on_a_node(work: Callable[[Node], Awaitable[Any]], seed: int = 1, **settings: bool) -> Any:
    """Run ``work`` in a process of its own; what it returns, or raises."""
    with installed() as world:
        draw = random.Random(seed)
        loop = SimulatedLoop(draw)
        world.begin(loop, draw)
        node = Node(loop, draw, lambda *_: None, **settings)

        async def run() -> Any:
            try:
                return await work(node)
            finally:
                loop.finish()

        task = loop.spawn(loop.process("p"), run())
        loop.run_schedule(loop.time() + 1_000)
        try:
            return task.result()
        finally:
            loop.bury()


async def ask(connection: Connection, *commands: tuple[str, ...]) -> list[Any]:
    """The replies to a pipeline; error replies are values."""
    parts = [f"*{len(c)}\r\n" + "".join(f"${len(word)}\r\n{word}\r\n" for word in c) for c in commands]
    await connection.send_packed_command("".join(parts).encode())
    replies: list[Any] = []
    for _ in commands:
        try:
            replies.append(await connection.read_response())
        except ResponseError as refusal:
            replies.append(refusal)
    return replies


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("forbids_functions", [False, True])
def test_the_log_answers_random_programs_as_the_memory_log_does(seed: int, forbids_functions: bool) -> None:
    async def program(node: Node) -> None:
        log = RedisLog(node.factory(), log_settings(), check=False)
        await log.connect()
        await run_program(seed, 120, log, MemoryLog(log_settings(), node.loop.time), f"p{seed}")

    on_a_node(program, seed, forbids_functions=forbids_functions)


def test_an_id_that_is_not_above_the_last_is_refused() -> None:
    async def work(node: Node) -> list[Any]:
        connection = Connection(node, "try")
        await connection.connect()
        return await ask(connection, ("XADD", "s", "2-5", "m", "x"), ("XADD", "s", "1-9", "m", "y"), ("XLEN", "s"))

    added, refused, length = on_a_node(work)
    assert (added, length) == (b"2-5", 1)
    assert "equal or smaller" in str(refused)


def test_a_restart_loses_the_last_writes_and_every_connection() -> None:
    async def work(node: Node) -> list[Any]:
        connection = Connection(node, "try")
        await connection.connect()
        await ask(connection, ("SET", "a", "1"), ("SET", "b", "2"), ("SET", "a", "3"))
        node.restart(2, 0.5)
        with pytest.raises(StoreLost):
            await ask(connection, ("GET", "a"))
        await asyncio.sleep(1)
        second = Connection(node, "try")
        await second.connect()
        return await ask(second, ("GET", "a"), ("GET", "b"))

    assert on_a_node(work) == [b"1", None]


def test_what_was_confirmed_is_never_lost() -> None:
    async def work(node: Node) -> int:
        connection = Connection(node, "try")
        await connection.connect()
        await ask(connection, ("SET", "a", "1"), ("WAITAOF", "1", "0", "100"), ("SET", "a", "2"))
        node.restart(5, 0.1)
        return node.losses

    assert on_a_node(work) == 1


def test_a_frozen_node_runs_later_what_was_sent_by_one_who_has_left() -> None:
    async def work(node: Node) -> Any:
        connection = Connection(node, "try")
        await connection.connect()
        node.freeze(2.0)
        await connection.send_packed_command(b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n")
        await connection.disconnect()
        await asyncio.sleep(3)
        return node.store.data.get(b"a")

    assert on_a_node(work) == b"1"


def test_a_demoted_node_refuses_writes_and_only_those() -> None:
    async def work(node: Node) -> list[Any]:
        connection = Connection(node, "try")
        await connection.connect()
        node.complain(READONLY)
        return await ask(connection, ("SET", "a", "1"), ("GET", "a"))

    refused, read = on_a_node(work)
    assert isinstance(refused, ReadOnlyError)
    assert read is None


def test_a_half_queued_transaction_is_given_up_with_its_connection() -> None:
    async def work(node: Node) -> Any:
        connection = Connection(node, "try")
        await connection.connect()
        await ask(connection, ("MULTI",), ("SET", "a", "1"))
        node.cut(connection)
        await asyncio.sleep(1)
        return node.store.data.get(b"a")

    assert on_a_node(work) is None
