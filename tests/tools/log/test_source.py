"""What a command line names is what is read."""

from __future__ import annotations

import argparse

import pytest

from duplex_es.log.memory import MemoryLog
from duplex_es.tools import show
from duplex_es.tools.errors import ToolError
from duplex_es.tools.log.source import opened_source
from tests.support.call_files import RECORDING, arguments
from tests.support.recorded import record_session

pytestmark = pytest.mark.unit


async def test_a_file_is_read_where_one_is_named_and_else_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened_source(arguments()) as source:
        assert (source.name, (await source.find(None)).ref.session_id) == (str(RECORDING), "call-1")
    log = MemoryLog()
    await record_session(log, "stored")
    monkeypatch.setattr(show, "open_log", lambda url, settings: log)
    async with opened_source(argparse.Namespace(file=None, redis_url="memory://")) as source:
        assert (await source.find(None)).ref.session_id == "stored"


async def test_a_session_that_goes_while_it_is_read_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    log = MemoryLog()
    monkeypatch.setattr(show, "open_log", lambda url, settings: log)
    with pytest.raises(ToolError, match="no session 'gone'"):
        async with opened_source(argparse.Namespace(file=None, redis_url="memory://")) as source:
            await source.find("gone")
