"""Makes the corpus: ``python -m tests.corpus.record [SCENE ...]`` plays scenes against real processes, exports them.

A recording is kept as it is for as long as its format can be read: it stands for what builds of its day decided. Record
one again only when its scene has changed; ``golden.json`` then says in the diff what that changed.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path

from duplex_es.tools.log import carry
from tests.corpus.golden import write_golden
from tests.corpus.scenes import SCENES, Place
from tests.support.processes import start_store
from tests.support.services import Deployment

HERE = Path(__file__).parent
SLOTS = ("--slots", "16")
PROFILES = ("qwen3_omni", "personaplex")
PATIENCE_S = 120.0


async def record(scene: Callable[[Place], Awaitable[None]], deployment: Deployment) -> None:
    """Play one scene and export its session."""
    name = scene.__name__

    async def lose_worker() -> None:
        """Kill the worker that has the session, once another one is there."""
        successor = deployment.add_worker()
        await asyncio.to_thread(successor.wait_until_ready)
        lost = deployment.workers.pop(0)
        lost.process.kill()
        lost.process.wait()

    async with asyncio.timeout(PATIENCE_S):
        await scene(Place(deployment, name, lose_worker))
    path = HERE / f"{name}.dxlog"
    path.unlink(missing_ok=True)
    where = argparse.Namespace(session=name, out=path, file=None, redis_url=deployment.redis_url)
    await carry.run_export(where)


def main(names: list[str]) -> None:
    """Record the scenes of these names, or all."""
    wanted = [scene for scene in SCENES if not names or scene.__name__ in names]
    store = start_store("valkey")
    try:
        with ExitStack() as stack:
            main_one = stack.enter_context(Deployment(store.url, gateways=2, model="scripted", options=SLOTS))
            for model in ("echo", "cascade"):
                stack.enter_context(Deployment(store.url, gateways=0, model=model, options=SLOTS))
            for profile in PROFILES:
                options = (*SLOTS, "--model-option", f"profile={profile}")
                stack.enter_context(Deployment(store.url, gateways=0, model="scripted", options=options))
            for scene in wanted:
                print(scene.__name__, flush=True)
                asyncio.run(record(scene, main_one))
    finally:
        store.stop()
    write_golden()


if __name__ == "__main__":
    main(sys.argv[1:])
