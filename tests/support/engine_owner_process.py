"""A worker in small, to be killed: an engine, the process that holds its memory, and one that waits.

Says the numbers of all of them in one line, and then does nothing.
"""

from __future__ import annotations

import asyncio

from workers.engine.process import EngineProcess
from workers.engine.starting import Ways

KEEPING = "tests.support.keeping_engine:KeepingEngine"


async def _stay() -> None:
    engine = EngineProcess(KEEPING, {}, ways=Ways(holds=True, standby=True, standby_after_s=0.0))
    await engine.start(timeout_s=60)
    await engine.starter.standby.prepared.wait()
    waiting, holder = engine.starter.standby.pid, engine.starter.holder
    assert holder is not None
    print(engine.pid, waiting, holder.pid, flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_stay())
