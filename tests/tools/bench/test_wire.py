"""The connection under a benchmark's client: counted, and cut like a cable."""

from __future__ import annotations

import pytest
from websockets.exceptions import ConnectionClosed

from duplex_es.tools.bench.takes import SessionTake
from duplex_es.tools.bench.wire import CutConnector
from tests.support.voice_server import voice_server

pytestmark = pytest.mark.unit


async def test_what_passes_is_counted_and_a_cut_connection_is_gone() -> None:
    take = SessionTake(0)
    connector = CutConnector(take)
    async with voice_server() as server:
        transport = await connector.connect(server.url)
        await transport.send('{"type": "session.update", "session": {}}')
        heard = await transport.recv()
        assert (take.sent_bytes, take.received_bytes) == (41, len(heard))
        await connector.cut()
        with pytest.raises(ConnectionClosed):
            await transport.recv()
        await connector.cut()  # nothing is left to cut
