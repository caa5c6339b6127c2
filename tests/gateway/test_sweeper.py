"""Sessions that nobody wants are ended by whoever looks first."""

from __future__ import annotations

import pytest

from duplex_es.log.errors import LogUnavailable, SessionUnknown
from duplex_es.log.memory import MemoryLog
from gateway import sweeper as module
from gateway.service import Service
from gateway.sweeper import Sweeper
from tests.gateway.stage import settings_of, until

pytestmark = pytest.mark.unit


async def test_what_nobody_holds_and_nobody_takes_is_ended_and_the_rest_stays() -> None:
    now = [0.0]
    log = MemoryLog(clock=lambda: now[0])
    for name in ("left", "held"):
        ref = await log.next_incarnation(name)
        attachment = await log.create(ref, model="m", token_digest=b"1", gateway="g", record=b"r")
        if name == "left":
            await log.detach(attachment, b"gone")
    now[0] = 5.0
    await log.renew([attachment], [])
    sweeper = Sweeper(log, settings_of(unclaimed_s=4.0))
    await sweeper.sweep()
    await sweeper.sweep()
    assert [(await log.head(name)).state for name in ("left", "held")] == ["closed", "waiting"]
    with pytest.raises(SessionUnknown):
        await log.attach(
            (await log.head("left")).ref, presented_digest=b"1", next_digest=b"2", gateway="g", record=b"r"
        )


async def test_a_log_that_does_not_answer_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "INTERVAL_S", 0.001)
    asked: list[float] = []

    class Silent(MemoryLog):
        async def expire_unclaimed(self, older_than_s: float):  # type: ignore[no-untyped-def]
            asked.append(older_than_s)
            raise LogUnavailable("silent")

    async with Service(settings_of(unclaimed_s=7.0), Silent()).running():
        await until(lambda: len(asked) > 3)
    assert set(asked) == {7.0}
