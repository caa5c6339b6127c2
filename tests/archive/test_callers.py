"""Who called."""

from __future__ import annotations

from typing import Any

import pytest

from duplex_es.archive.callers import callers_in, callers_of
from duplex_es.log.memory import MemoryLog
from duplex_es.reading.source import LiveSource
from tests.support.archives import CALLER, planted_call

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("session", "found"),
    [
        ({"safety_identifier": "a"}, ["a"]),
        ({"metadata": {"user_id": "a", "caller": "b"}}, ["b", "a"]),
        ({"user": "a", "metadata": {"user": "a"}}, ["a"]),
        ({"user": {"not": "text"}, "metadata": "no map"}, []),
        ({"user": ""}, []),
        ("no map", []),
    ],
)
def test_a_client_names_its_caller_in_the_settings(session: Any, found: list[str]) -> None:
    assert callers_in(session) == found


async def test_the_caller_of_a_session_is_found_in_its_log_and_in_its_opening_answer() -> None:
    log = MemoryLog()
    await planted_call(log)
    source = LiveSource(log, "")
    head = await source.find("call-1")
    assert await callers_of(head, source.input(head)) == [CALLER]

    async def nothing() -> Any:
        return
        yield

    assert await callers_of(head, nothing()) == [CALLER]
