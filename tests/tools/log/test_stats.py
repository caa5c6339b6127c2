"""The numbers of a call, as the command prints them."""

from __future__ import annotations

import json

import pytest

from duplex_es.tools.log import stats
from tests.support.call_files import arguments

pytestmark = pytest.mark.unit


async def test_the_numbers_are_a_table_or_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    assert await stats.run(arguments()) == 0
    assert "2 completed, 1 cancelled" in capsys.readouterr().out
    wanted = arguments()
    wanted.json = True
    assert await stats.run(wanted) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["session"], found["turns"], found["caller_ms"]) == ("call-1#0", 3, 4_000)
