"""The state at a place of the log."""

from __future__ import annotations

import pytest

from duplex_es.reading.dxlog import FileSource
from duplex_es.tools.errors import ToolError
from duplex_es.tools.log.states import plain, state_at, state_lines
from tests.support.call_files import RECORDING

pytestmark = pytest.mark.unit


async def test_the_state_after_a_frame_is_what_was_known_then() -> None:
    with FileSource(RECORDING) as source:
        before, during, after = [await state_at(source, source.head, seq) for seq in (2, 60, 174)]
    assert before.session.response is None and not before.session.items
    assert during.session.response is not None and during.consumed == "1-19"
    assert during.session.items[1].transcript == "Sunny all day."
    assert after.session.state == "closed" and plain(after.session)["state"] == "closed"
    assert any("Once upon" in text for _, text in state_lines(during))


@pytest.mark.parametrize("seq", [-1, 175])
async def test_a_place_that_is_not_there_is_refused(seq: int) -> None:
    with FileSource(RECORDING) as source, pytest.raises(ToolError, match="the log ends at 174"):
        await state_at(source, source.head, seq)
