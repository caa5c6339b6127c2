"""How long the timeline of a recorded call takes to open, and how smoothly it moves: numbers, no verdict.

``python -m tests.support.timeline_bench FILE.dxlog [ROUNDS]`` starts a Valkey, and for each round a gateway and a
browser anew, and prints JSON. Opening counts from the navigation to the first picture with every mark on it. Then the
page is zoomed in to a minute and dragged through the call for five seconds, and zoomed in and out for as long; a frame
is the time between two calls of ``requestAnimationFrame``.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
from pathlib import Path
from typing import Any

from duplex_es.tools import cli
from tests.gateway.reading import TOKEN
from tests.support.browser import opened
from tests.support.processes import free_port, start_store
from tests.support.services import Service

MOVE = """
async (how) => {
  const stage = window.duplexTimeline;
  const frames = [];
  let before = performance.now();
  const began = before;
  stage.moveTo([0, how === "pan" ? 60_000 : stage.lasts]);
  while (before - began < 5_000) {
    const now = await new Promise((done) => requestAnimationFrame(done));
    frames.push(now - before);
    before = now;
    if (how === "pan") stage.pan(0.02);
    else stage.zoom(Math.sin((now - began) / 400) > 0 ? 0.96 : 1.04, stage.lasts / 2);
  }
  return frames.slice(2);
}
"""
DRAWN = """
async () => {
  while (!window.duplexTimeline?.frames.length) await new Promise((done) => requestAnimationFrame(done));
  return performance.now();
}
"""
LOUD = "() => !duplexTimeline.peaks.timer && [...duplexTimeline.peaks.tiles.values()].every((tile) => tile.bins)"


async def measured(url: str, session: str) -> dict[str, Any]:
    """One round in a browser of its own."""
    async with opened(f"{url}/sessions") as tab:
        page = tab.page
        await page.get_by_label("Operator token").fill(TOKEN)
        await page.get_by_role("button", name="Sign in").click()
        await page.get_by_role("link", name=session).wait_for()
        await page.goto(f"{url}/sessions/{session}", wait_until="commit")
        opened_ms = await page.evaluate(DRAWN)
        await page.wait_for_function(LOUD)
        found = {"opened_ms": round(opened_ms), "all_peaks_ms": round(await page.evaluate("performance.now()"))}
        for how in ("pan", "zoom"):
            frames = sorted(await page.evaluate(MOVE, how))
            found[how] = {
                "frames_per_s": round(1_000 * len(frames) / sum(frames), 1),
                "median_ms": round(statistics.median(frames), 1),
                "p95_ms": round(frames[int(len(frames) * 0.95)], 1),
                "worst_ms": round(frames[-1], 1),
            }
        return found


def main(path: Path, rounds: int = 3) -> None:
    """Print the rounds."""
    os.environ["DUPLEX_ES_OPERATOR_TOKEN"] = TOKEN
    store = start_store("valkey")
    try:
        assert cli.main(["log", "import", str(path), "--into", store.url]) == 0
        for _ in range(rounds):
            port = free_port()
            what = ("--port", str(port), "--redis-url", store.url, "--pages", "on")
            gateway = Service("duplex-es-gateway", *what, ready_port=port)
            try:
                gateway.wait_until_ready()
                print(json.dumps(asyncio.run(measured(f"http://127.0.0.1:{port}", "hour-1"))))
            finally:
                gateway.stop()
    finally:
        store.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *(int(rounds) for rounds in sys.argv[2:]))
