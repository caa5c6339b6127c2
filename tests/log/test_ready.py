"""Finding waiting sessions without asking every queue every time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from duplex_es.log import keys
from duplex_es.log.api import SessionRef
from duplex_es.log.connections import Command, Reply
from duplex_es.log.errors import LogUnavailable
from duplex_es.log.ready import ReadyFinder, announcement

pytestmark = pytest.mark.unit


class Store:
    """Queues of a store whose clock stands at 100 s."""

    def __init__(self) -> None:
        self.queues: dict[str, dict[str, float]] = {}
        self.pipelines: list[int] = []

    def add(self, session_id: str, since_ms: float, model: str = "echo") -> SessionRef:
        ref = SessionRef(session_id, 0)
        queue = keys.ready(keys.partition_of(session_id), model)
        self.queues.setdefault(queue, {})[keys.member(ref)] = since_ms
        return ref

    async def grouped(self, slots: Sequence[int]) -> list[list[int]]:
        return [list(range(len(slots)))]

    async def calls(self, commands: Sequence[Command]) -> list[Reply]:
        self.pipelines.append(len(commands) - 1)
        assert commands[0] == ("TIME",)
        replies: list[Reply] = [[b"100", b"0"]]
        for _, key, first, last, _ in commands[1:]:
            waiting = sorted(self.queues.get(str(key), {}).items(), key=lambda item: item[1])
            assert isinstance(first, int) and isinstance(last, int)
            replies.append([[name.encode(), since] for name, since in waiting[first : last + 1]])
        return replies


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def finder(store: Store, clock: Clock) -> ReadyFinder:
    return ReadyFinder(store, 2.0, clock)


async def test_the_first_question_looks_everywhere_and_the_longest_wait_comes_first(
    store: Store, finder: ReadyFinder
) -> None:
    store.add("late", 90_000.0)
    store.add("early", 10_000.5)
    store.add("middle", 10_000.7)
    found = [await finder.find(["echo"]) for _ in range(4)]
    assert [candidate.ref.session_id for candidate in found if candidate] == ["early", "middle", "late"]
    assert store.pipelines == [keys.PARTITIONS]


async def test_a_session_whose_time_has_not_come_is_left_alone(store: Store, finder: ReadyFinder) -> None:
    store.add("claimed", 100_001.0)
    assert await finder.find(["echo"]) is None


async def test_an_announced_queue_is_asked_alone(store: Store, finder: ReadyFinder) -> None:
    assert await finder.find(["echo"]) is None
    ref = store.add("new", 99_000.0)
    assert await finder.find(["echo"]) is None  # nobody said so, and it is not time to look
    finder.received(announcement(keys.partition_of("new"), "echo").encode())
    found = await finder.find(["echo"])
    assert found is not None and found.ref == ref
    assert store.pipelines == [keys.PARTITIONS, 1]


async def test_every_queue_is_asked_again_after_the_interval(store: Store, finder: ReadyFinder, clock: Clock) -> None:
    assert await finder.find(["echo"]) is None
    store.add("lapsed", 99_000.0)
    clock.now_s = 2.0
    assert await finder.find(["echo"]) is not None


async def test_a_new_model_is_looked_for_at_once(store: Store, finder: ReadyFinder) -> None:
    assert await finder.find(["echo"]) is None
    store.add("other", 99_000.0, "cascade")
    found = await finder.find(["cascade"])
    assert found is not None and found.model == "cascade"


async def test_a_lost_subscription_makes_it_look_everywhere(store: Store, finder: ReadyFinder) -> None:
    assert await finder.find(["echo"]) is None
    store.add("missed", 99_000.0)
    finder.resumed()
    assert await finder.find(["echo"]) is not None


async def test_a_crowded_queue_is_asked_until_it_is_empty(store: Store, finder: ReadyFinder) -> None:
    partition = keys.partition_of("s0")
    names = [f"s{n}" for n in range(20_000) if keys.partition_of(f"s{n}") == partition][:20]
    for n, name in enumerate(names):
        store.add(name, float(n))
    found = []
    while candidate := await finder.find(["echo"]):
        found.append(candidate.ref.session_id)
        del store.queues[keys.ready(partition, "echo")][keys.member(candidate.ref)]
    assert found == names


async def test_waiting_ends_with_an_announcement_of_a_wanted_model_only(finder: ReadyFinder) -> None:
    await finder.find(["echo"])
    waiter = asyncio.create_task(finder.wait(30.0))
    await asyncio.sleep(0)
    finder.received(announcement(3, "cascade").encode())
    finder.received(b"nonsense")
    finder.received(b"\xff\xfe")
    finder.received(b"9999 echo")
    await asyncio.sleep(0.01)
    assert not waiter.done()
    finder.received(announcement(3, "echo").encode())
    await asyncio.wait_for(waiter, 20)
    await asyncio.wait_for(finder.wait(30.0), 20)  # it still stands


async def test_waiting_ends_in_time(finder: ReadyFinder) -> None:
    await finder.find(["echo"])
    await asyncio.wait_for(finder.wait(0.01), 30)


async def test_queues_of_a_node_that_does_not_answer_are_asked_again(
    store: Store, finder: ReadyFinder, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = {keys.partition_of("there")}

    async def grouped(slots: Sequence[int]) -> list[list[int]]:
        away = [n for n, slot in enumerate(slots) if any(keys.PARTITION_SLOTS[p] == slot for p in silent)]
        return [group for group in (away, [n for n in range(len(slots)) if n not in away]) if group]

    async def calls(commands: Sequence[Command]) -> list[Reply]:
        if silent and any(str(keys.ready(p, "echo")) in map(str, command) for command in commands for p in silent):
            raise LogUnavailable("away")
        return await answers(commands)

    answers = store.calls
    monkeypatch.setattr(store, "grouped", grouped)
    monkeypatch.setattr(store, "calls", calls)
    store.add("here", 90_000.0)
    store.add("there", 80_000.0)
    assert keys.partition_of("here") not in silent
    found = await finder.find(["echo"])
    assert found is not None and found.ref.session_id == "here"
    silent.clear()
    found = await finder.find(["echo"])
    assert found is not None and found.ref.session_id == "there"
