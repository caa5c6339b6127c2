"""Real faults on a service that a real Prometheus scrapes: the alerts fire, and each figure is moved by something.

The rules are the shipped ones with windows of seconds. The tests share one service and run in this order: each leaves
it able to serve the next, only the last one does not.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from duplex_es.observability.catalogue import FAMILIES, Gauge
from tests.alerts import causes
from tests.alerts.rules import FILES, ROOT, alerts, hurried
from tests.support import incidents
from tests.support.watched import SCRAPE_S, Prometheus, WatchedStack

pytestmark = [pytest.mark.alerts, pytest.mark.timeout(300)]


class Live:
    """A service, and the Prometheus that watches it. ``fired`` are the alerts that were seen to fire."""

    def __init__(self, stack: WatchedStack, prometheus: Prometheus) -> None:
        self.stack, self.prometheus = stack, prometheus
        self.fired: set[str] = set()
        self.first, self.second = stack.urls

    def rescan(self) -> None:
        """Scrape what runs now."""
        self.prometheus.scrape(self.stack.targets)

    async def during(self, *names: str, patience_s: float = 30.0) -> None:
        """Return once each of these alerts was seen to fire."""
        left, until_s = set(names), time.monotonic() + patience_s
        while left:
            left -= await asyncio.to_thread(self.prometheus.firing)
            assert time.monotonic() < until_s, f"did not fire: {left}; firing: {self.prometheus.firing()}"
            await asyncio.sleep(0.1)
        self.fired |= set(names)

    async def again_and_again(self, incident: Callable[[], Coroutine[Any, Any, None]], *names: str) -> None:
        """Repeat ``incident`` until these alerts fire."""
        watching = asyncio.create_task(self.during(*names))
        while not watching.done():
            await incident()
            await asyncio.sleep(SCRAPE_S / 2)
        await watching


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    """Two gateways, of which one asks for a replica, an archive, and two workers, of which one is twice too slow."""
    rules = [hurried(path.read_text()) for path in FILES]
    options = ("--admit-at-once", "2", "--log-patience-s", "3")
    with WatchedStack("--appendonly", "yes", "--appendfsync", "always", gateway_options=options) as stack:
        stack.add_gateway()
        stack.add_gateway("--replicas", "1")
        stack.add_worker("scripted")
        stack.add_slow_worker(40)
        stack.add_archive()
        with Prometheus(rules) as prometheus:
            live = Live(stack, prometheus)
            live.rescan()
            prometheus.until(lambda: len(prometheus.query("duplex_build_info")) == 5, 20, "five targets")
            yield live


async def test_calls_that_go_well_alarm_nobody(live: Live) -> None:
    for _ in range(3):
        await incidents.chat(live.first)
    await incidents.interrupt(live.second)
    await incidents.resume(live.first, live.second)
    await incidents.be_durable(live.first)
    await asyncio.sleep(2 * SCRAPE_S)
    assert live.prometheus.firing() == set()


def test_promtool_finds_nothing_to_complain_about_in_what_is_exposed(live: Live) -> None:
    assert live.stack.archive is not None
    for program in (*live.stack.gateways, *live.stack.workers, live.stack.archive):
        figures = program.figures().encode()
        done = subprocess.run(["promtool", "check", "metrics"], input=figures, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()


async def test_an_archive_that_has_nowhere_to_write_and_one_that_is_gone(live: Live) -> None:
    archive = live.stack.archive
    assert archive is not None
    archive.lose_its_place()
    await live.again_and_again(lambda: incidents.chat(live.first), "DuplexArchiveStopped")
    archive.find_it_again()
    calm = "min(duplex_archive_behind_seconds == bool 0)"
    await asyncio.to_thread(live.prometheus.until, lambda: live.prometheus.query(calm)[0]["value"][1] == "1", 40, calm)
    await asyncio.to_thread(
        live.prometheus.until, lambda: "DuplexArchiveStopped" not in live.prometheus.firing(), 20, "calm"
    )
    archive.process.kill()
    await live.during("DuplexArchiveStopped")
    archive.stop()
    live.stack.add_archive()
    live.rescan()


async def test_when_all_slots_are_taken_callers_are_refused(live: Live) -> None:
    async with incidents.full(live.first, 4):
        await live.during("DuplexNoFreeSlots")
        await live.again_and_again(lambda: incidents.be_refused(live.first), "DuplexSessionsRefused")


async def test_clients_that_come_back_for_nothing(live: Live) -> None:
    await live.again_and_again(lambda: incidents.fail_resumes(live.first, 2), "DuplexResumesFail")
    await incidents.misspeak(live.first)


async def test_clients_that_take_nothing(live: Live) -> None:
    async with incidents.deaf(live.second, 2):
        await live.during("DuplexClientsBlocked", "DuplexReadersBehind")


async def test_a_model_that_is_too_slow(live: Live) -> None:
    await live.again_and_again(
        lambda: incidents.speak_to_toy(live.first, 1.5), "DuplexLateTicks", "DuplexDroppedAudio", "DuplexUnderruns"
    )
    await asyncio.gather(
        live.again_and_again(lambda: incidents.answer_late(live.first), "DuplexFirstAudioSlow"),
        live.again_and_again(lambda: causes.be_cut_late(live.second, 2.5), "DuplexBargeInSlow"),
    )
    await live.again_and_again(lambda: incidents.fail_answers(live.first, 3), "DuplexAnswersFail")


async def test_an_engine_that_dies(live: Live) -> None:
    toy = live.stack.workers[1]

    async def die() -> None:
        incidents.kill_engine(toy)

    await live.again_and_again(die, "DuplexModelDown", "DuplexWorkerNotReady")
    await live.during("DuplexEngineRestarts")


async def test_a_process_that_is_too_busy(live: Live) -> None:
    gateway = live.stack.gateways[1].process

    async def stall() -> None:
        gateway.send_signal(signal.SIGSTOP)
        await asyncio.sleep(0.4)
        gateway.send_signal(signal.SIGCONT)
        await asyncio.sleep(0.3)

    await live.again_and_again(stall, "DuplexLoopLag")


async def test_a_replica_that_lags(live: Live) -> None:
    async with causes.replica_of(live.stack.store) as replica, causes.told_what_survives(live.second) as call:
        await live.again_and_again(lambda: causes.stop_for_a_moment(replica, call, 1.5), "DuplexPersistSlow")


async def test_a_store_that_does_not_answer(live: Live) -> None:
    async with incidents.endless(live.first), incidents.callers_at_the_door(live.second, 6):
        live.stack.store.freeze()
        try:
            await live.during("DuplexLogDown", "DuplexGatewayNotReady")
            await live.during("DuplexErrorsToClients", "DuplexLogErrors")
        finally:
            live.stack.store.thaw()
    await wait_ready(live)


async def test_a_store_that_stalls_for_a_moment(live: Live) -> None:
    async with incidents.endless(live.first):

        async def stall() -> None:
            live.stack.store.freeze()
            await asyncio.sleep(1.5)
            live.stack.store.thaw()
            await asyncio.sleep(0.3)

        async def open_many() -> None:
            await asyncio.gather(stall(), *(incidents.misspeak(live.second) for _ in range(3)), return_exceptions=True)

        names = ("DuplexDeliverySlow", "DuplexAdmissionSlow", "DuplexAppendSlow", "DuplexInputDelay")
        await live.again_and_again(open_many, *names)
    await wait_ready(live)


async def test_connections_that_break(live: Live) -> None:
    store = redis.Redis.from_url(live.stack.store.url)

    async def cut() -> None:
        store.client_kill_filter(_type="normal")

    async with incidents.endless(live.first):
        await live.again_and_again(cut, "DuplexLogReconnects")
    store.close()
    await wait_ready(live)


async def test_a_store_that_comes_back_without_its_last_moments(live: Live) -> None:
    async with incidents.endless(live.first, 2) as calls:
        for _ in range(20):  # Past the burst it begins with: of what is lost now, only the last was not acknowledged.
            await calls[0].hear_until("response.output_audio.delta")
        live.stack.store.kill()
        forget_the_end(live.stack.store.directory)
        live.stack.store.start()
        await live.during("DuplexLogHealed")
    await wait_ready(live)


def forget_the_end(directory: Path, size: int = 20_000) -> None:
    """Cut the append-only file, as a disk that had not been asked to keep it would."""
    (file,) = directory.glob("appendonlydir/*.incr.aof")
    os.truncate(file, file.stat().st_size - size)


async def test_workers_that_are_lost(live: Live) -> None:
    stack = live.stack
    async with incidents.endless(live.first, 2) as calls:
        stack.workers[0].process.kill()
        await live.during("DuplexNoWorker", "DuplexSessionsWait")
        causes.add_other_build(stack, rebuild_s=3)
        live.rescan()
        await calls[0].hear_until("response.output_audio.delta")
        await live.during("DuplexSessionsTakenOver", "DuplexTakeoverSlow", "DuplexVersionsMixed")


async def test_a_log_that_does_not_hold_together(live: Live) -> None:
    store = redis.Redis.from_url(live.stack.store.url)
    async with incidents.endless(live.first) as calls:
        seqs = calls[0].seqs
        damage(store, calls[0].heard[0]["session"]["id"], seqs[-1])
        live.stack.workers[-1].process.kill()
        live.stack.add_worker("scripted")
        live.rescan()
        await live.during("DuplexSessionsFailed")
    store.close()


def damage(store: redis.Redis, session_id: str, seq: int) -> None:
    """Take one record out of the middle of a session's output."""
    for key in store.scan_iter(f"*{session_id}*"):
        if store.type(key) == b"stream":
            for entry_id, _ in store.xrange(key):
                if entry_id.endswith(f"-{seq}".encode()):
                    store.xdel(key, entry_id)


async def test_a_stopping_gateway_and_a_stopping_worker_say_so(live: Live) -> None:
    stack = live.stack
    async with incidents.endless(live.second) as calls, incidents.scripted(live.second):
        draining = "count(duplex_draining == 1) or vector(0)"
        before = len(stack.workers)
        stack.add_worker("scripted")
        live.rescan()
        await asyncio.sleep(3 * SCRAPE_S)
        stack.gateways[1].process.terminate()
        await calls[0].hear_until("session.going_away")
        await asyncio.to_thread(
            live.prometheus.until, lambda: live.prometheus.query(draining)[0]["value"][1] != "0", 10, draining
        )
        stack.workers[before - 1].process.terminate()
        await asyncio.sleep(3)


async def wait_ready(live: Live) -> None:
    """Return once everything that runs is ready again, and nobody holds a slot any more."""
    unready = "sum(duplex_ready == bool 0) + sum(duplex_worker_sessions)"
    await asyncio.to_thread(
        live.prometheus.until, lambda: live.prometheus.query(unready)[0]["value"][1] == "0", 40, unready
    )


# -- what all that has moved -----------------------------------------------------------------------------------------


def test_every_family_was_moved(live: Live) -> None:
    still = [family.name for family in FAMILIES if not moved(live.prometheus, family.name, type(family) is Gauge)]
    assert still == []


def moved(prometheus: Prometheus, name: str, is_gauge: bool) -> bool:
    """Whether any series of this family was ever above zero."""
    names = (name,) if is_gauge or name.endswith("_total") else (f"{name}_count",)
    return any(prometheus.query(f"max(max_over_time({one}[10m])) > 0") for one in names)


@pytest.mark.parametrize(
    "path", sorted((ROOT / "helm/duplex-es/dashboards").glob("*.json")), ids=lambda path: path.stem
)
def test_every_query_of_a_dashboard_is_answered(live: Live, path: Path) -> None:
    dashboard = json.loads(path.read_text())
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(ids) == len(set(ids))
    unanswered = []
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            query = target["expr"].replace("$__rate_interval", "10m").replace("$instance", ".*")
            if not live.prometheus.query(f"last_over_time(({query})[10m:2s])"):
                unanswered.append((panel["title"], query))
    assert unanswered == []


def test_every_alert_was_fired_by_its_cause(live: Live) -> None:
    assert set(alerts()) - live.fired == {"DuplexNoGateway"}, "the last test fires that one"


async def test_no_gateway_is_left(live: Live) -> None:
    live.stack.gateways[0].process.kill()
    await live.during("DuplexNoGateway")
    (alert,) = [
        one for one in live.prometheus.ask("alerts")["alerts"] if one["labels"]["alertname"] == "DuplexNoGateway"
    ]
    assert alert["annotations"]["runbook"] == "docs/runbooks/DuplexNoGateway.md"
    assert "{{" not in json.dumps(alert["annotations"])
