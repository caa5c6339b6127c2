"""Asking several nodes at once: one that is silent does not keep the answers of the others back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import pytest
from redis.exceptions import ResponseError

from duplex_es.log.connections import Command, Reply
from duplex_es.log.errors import Fenced, LogError, LogUnavailable
from duplex_es.log.nodes import ask, checked, from_each

pytestmark = pytest.mark.unit


class Nodes:
    """Slots below 10 on one node, all others on another."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies)

    async def grouped(self, slots: Sequence[int]) -> list[list[int]]:
        low = [n for n, slot in enumerate(slots) if slot < 10]
        return [group for group in (low, [n for n in range(len(slots)) if n not in low]) if group]

    async def calls(self, commands: Sequence[Command]) -> list[Reply]:
        return self.replies


async def test_each_node_is_asked_about_its_own() -> None:
    async def which(positions: list[int]) -> list[int]:
        return positions

    found = await from_each(Nodes(), [1, 20, 2, 30], which, 1.0)  # type: ignore[arg-type]
    assert found == [([0, 2], [0, 2]), ([1, 3], [1, 3])]


async def test_a_silent_node_is_left_out() -> None:
    async def which(positions: list[int]) -> str:
        if positions == [0]:
            await asyncio.sleep(60)
        return "here"

    began_s = time.monotonic()
    assert await from_each(Nodes(), [1, 20], which, 0.05) == [([1], "here")]  # type: ignore[arg-type]
    assert time.monotonic() - began_s < 5


async def test_where_none_answers_that_is_said() -> None:
    async def which(positions: list[int]) -> str:
        raise LogUnavailable("away")

    for slots in ([1, 20], [1, 2]):
        with pytest.raises(LogUnavailable):
            await from_each(Nodes(), slots, which, 1.0)  # type: ignore[arg-type]


async def test_a_refusal_is_not_silence() -> None:
    async def which(positions: list[int]) -> str:
        raise Fenced("no")

    with pytest.raises(Fenced):
        await from_each(Nodes(), [1, 20], which, 1.0)  # type: ignore[arg-type]


async def test_replies_are_checked() -> None:
    assert checked([b"a", 1]) == [b"a", 1]
    with pytest.raises(Fenced):
        checked([b"a", ResponseError("FENCED 3")])
    with pytest.raises(LogError):
        await ask(Nodes(ResponseError("WRONGTYPE")), ("GET", "k"))  # type: ignore[arg-type]
