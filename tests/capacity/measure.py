"""``python -m tests.capacity.measure --out FILE``: what one session costs a gateway, a worker and the store.

Real processes on loopback, callers at the pace of speech in processes of their own. Costs are processor time, memory
and bytes: a busy machine disturbs them less than times on a clock. Two kinds of call: ``turns`` (question, answer,
pause) and ``stream`` (both sides sound all the time in pieces of 80 ms, as with a model that answers while it
listens). Their workers serve ``scripted``, which computes nothing: what a model costs comes on top. ``cascade`` is a
call in turns with a model that really hears and speaks.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import statistics
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import redis

from tests.rollout.site import ROOT, Site

STREAM = json.dumps([{"on": "open", "do": [{"audio_ms": 80, "endless": True}]}])
RAMP_S, WARM_S, MEASURED_S = 4.0, 4.0, 20.0
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
KINDS: dict[str, tuple[str, ...]] = {
    "turns": (),
    "cascade": ("--vad", "--wav", str(ROOT / "examples/audio/question.wav")),
    "stream": ("--continuous", "--rate-hz", "24000", "--extra-body", json.dumps({"script": json.loads(STREAM)})),
}


@dataclass(slots=True)
class Cost:
    """Of one session: processor milliseconds in a second of its life, bytes in a second, kB of memory."""

    kind: str
    sessions: int
    gateway_cpu_ms: float
    worker_cpu_ms: float
    store_cpu_ms: float
    sound_out_share: float
    gateway_base_kb: float
    worker_base_kb: float
    gateway_kb: float
    worker_kb: float
    store_growth_bytes_s: float
    store_file_bytes_s: float
    store_in_bytes_s: float
    store_out_bytes_s: float
    client_in_bytes_s: float
    client_out_bytes_s: float
    round_trip_p50_ms: float
    round_trip_p99_ms: float
    failed: int


def cpu_s(pid: int) -> float:
    """Processor time of a process so far, all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def rss_kb(pid: int) -> float:
    """Memory of a process now."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1000


async def measure(kind: str, sessions: int) -> Cost:
    """Let so many callers talk on a service of one gateway and one worker, and divide."""
    async with Site(balancer="", gateways=1, workers=1, slots=sessions, model=_model(kind), namespaces=False) as site:
        gateway, worker, store = site.gateways[0].pid, site.workers[0].pid, site.store.pid
        with redis.Redis.from_url(site.store_url) as client:
            idle_kb = (rss_kb(gateway), rss_kb(worker))
            callers = await _callers(kind, sessions, site.url)
            await asyncio.sleep(RAMP_S + WARM_S)
            began_s, before = time.monotonic(), [cpu_s(pid) for pid in (gateway, worker, store)]
            info = await asyncio.to_thread(client.info)
            await asyncio.sleep(MEASURED_S)
            took_s = time.monotonic() - began_s
            after, later = [cpu_s(pid) for pid in (gateway, worker, store)], await asyncio.to_thread(client.info)
            busy_kb = (rss_kb(gateway), rss_kb(worker))
        report = json.loads((await callers.communicate())[0])
    each = took_s * sessions
    cpu = [(late - early) * 1000 / each for early, late in zip(before, after, strict=True)]

    def grown(name: str) -> float:
        return float(later[name] - info[name]) / each

    return Cost(
        kind, sessions, *cpu,
        sound_out_share=report["throughput"]["audio_s_per_s"] / sessions,
        gateway_base_kb=idle_kb[0],
        worker_base_kb=idle_kb[1],
        gateway_kb=(busy_kb[0] - idle_kb[0]) / sessions, worker_kb=(busy_kb[1] - idle_kb[1]) / sessions,
        store_growth_bytes_s=grown("used_memory"),
        store_file_bytes_s=grown("aof_current_size"),
        store_in_bytes_s=grown("total_net_input_bytes"), store_out_bytes_s=grown("total_net_output_bytes"),
        client_in_bytes_s=report["throughput"]["sent_bytes_per_s"] / sessions,
        client_out_bytes_s=report["throughput"]["received_bytes_per_s"] / sessions,
        round_trip_p50_ms=report["round_trip_ms"]["p50"], round_trip_p99_ms=report["round_trip_ms"]["p99"],
        failed=report["sessions"]["failed"],
    )  # fmt: skip


def _model(kind: str) -> str:
    return "cascade" if kind == "cascade" else "scripted"


async def _callers(kind: str, sessions: int, url: str) -> asyncio.subprocess.Process:
    words = [str(Path(sys.executable).with_name("duplex-es")), "bench", url, "--model", _model(kind), *KINDS[kind]]
    words += ["--sessions", str(sessions), "--ramp-s", str(RAMP_S), "--duration-s", str(WARM_S + MEASURED_S + 2)]
    return await asyncio.create_subprocess_exec(*words, "--quiet", "--json", stdout=asyncio.subprocess.PIPE)


def medians(costs: list[Cost]) -> dict[str, dict[str, dict[str, float]]]:
    """The median of every figure, for each kind of call and number of callers."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for kind, sessions in dict.fromkeys((cost.kind, cost.sessions) for cost in costs):
        rows = [asdict(cost) for cost in costs if (cost.kind, cost.sessions) == (kind, sessions)]
        figures = {
            name: round(statistics.median(row[name] for row in rows), 3)
            for name in rows[0]
            if name not in ("kind", "sessions")
        }
        found.setdefault(kind, {})[str(sessions)] = figures
    return found


def _rounded(cost: Cost) -> dict[str, Any]:
    return {name: round(one, 3) if isinstance(one, float) else one for name, one in asdict(cost).items()}


async def run(args: argparse.Namespace) -> int:
    """Measure everything, print and write it; the exit code."""
    costs: list[Cost] = []
    for _ in range(args.rounds):
        for kind in args.kind or ["turns", "stream"]:
            for sessions in args.sessions or [10, 20, 40]:
                costs.append(await measure(kind, sessions))
                print(json.dumps(asdict(costs[-1])), file=sys.stderr, flush=True)
    report: dict[str, Any] = {
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}",
        "load_average": [round(one, 1) for one in os.getloadavg()],
        "date": time.strftime("%Y-%m-%d"),
        "command": "python -m tests.capacity.measure " + " ".join(sys.argv[1:]),
        "medians": medians(costs),
        "rounds": [_rounded(cost) for cost in costs],
    }
    text = json.dumps(report, indent=1) + "\n"
    if args.out is None:
        print(text)
    else:
        args.out.write_text(text)
    return 0 if not any(cost.failed for cost in costs) else 1


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="capacity", description=__doc__)
    parser.add_argument("--sessions", type=int, action="append", default=[], help="callers; repeatable")
    parser.add_argument("--kind", choices=list(KINDS), action="append", default=[], help="repeatable")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=None)
    return parser.parse_args(words)


if __name__ == "__main__":
    sys.exit(asyncio.run(run(arguments())))
