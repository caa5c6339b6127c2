"""Which model, and whether the fleet has room."""

from __future__ import annotations

import pytest

from duplex_es.log.api import WorkerCard
from duplex_es.log.memory import MemoryLog
from duplex_es.protocol import ProtocolError
from gateway.admission import admit, chosen_model
from gateway.query import Query

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("session", "query", "chosen"),
    [
        ({"model": "a"}, Query(model="b"), ("a", "session.model")),
        ({}, Query(model="b"), ("b", "model")),
        ({"model": ""}, Query(model="b"), ("b", "model")),
        ({"model": 7}, Query(), ("c", "session.model")),
    ],
)
def test_the_session_goes_before_the_query_and_that_before_the_default(
    session: dict[str, object], query: Query, chosen: tuple[str, str]
) -> None:
    assert chosen_model(session, query, "c") == chosen


async def fleet(*cards: tuple[int, int]) -> MemoryLog:
    """A log with one worker of model ``m`` for each ``(slots, used)``."""
    log = MemoryLog()
    for number, (slots, used) in enumerate(cards):
        await log.register(WorkerCard(f"w{number}", {"m": b""}, slots, used))
    return log


async def test_a_free_slot_anywhere_is_enough() -> None:
    await admit(await fleet((2, 2), (2, 1)), "m", "model")


async def test_sessions_that_wait_are_counted_against_the_free_slots() -> None:
    log = await fleet((2, 0))
    for number in range(2):
        await admit(log, "m", "model")
        ref = await log.next_incarnation(f"s{number}")
        await log.create(ref, model="m", token_digest=b"", gateway="g", record=b"")
    with pytest.raises(ProtocolError) as refused:
        await admit(log, "m", "model")
    assert refused.value.code == "duplex_session_busy"
    assert "max_sessions=2" in refused.value.message


async def test_a_full_fleet_and_an_empty_one_are_busy_and_an_unknown_model_is_not() -> None:
    codes = []
    for cards, model in ((((1, 1),), "m"), ((), "m"), (((1, 0),), "n")):
        with pytest.raises(ProtocolError) as refused:
            await admit(await fleet(*cards), model, "session.model")
        codes.append((refused.value.code, refused.value.param))
    busy = ("duplex_session_busy", None)
    assert codes == [busy, busy, ("invalid_request_error", "session.model")]
