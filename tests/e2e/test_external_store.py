"""Gateway and worker as separate processes over a Redis 7.0 that somebody else runs, named by its URL."""

from __future__ import annotations

import pytest

from tests.support.ordering import check_order
from tests.support.processes import StoreProcess
from tests.support.services import Deployment
from tests.support.talking import conversing

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


async def test_a_call_over_redis_server(redis_server: StoreProcess):
    with Deployment(redis_server.url, model="echo") as deployment:
        async with conversing(deployment.urls[0], model="echo") as caller:
            part = {"type": "input_text", "text": "over a real Redis"}
            item = {"type": "message", "role": "user", "content": [part]}
            await caller.say(type="conversation.item.create", item=item)
            await caller.say(type="response.create")
            done = await caller.hear_until("response.done")
            await caller.say(type="session.close")
            await caller.hear_until("session.closed")
        statuses = [service.stop() for service in (*deployment.gateways, *deployment.workers)]

    assert done["response"]["output"][0]["content"][0]["transcript"] == "over a real Redis"
    assert caller.seqs == list(range(1, len(caller.seqs) + 1))
    assert statuses == [0, 0]
    check_order(caller.heard)
