"""A whole stack of stand-in processes: started, watched, ended."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import sys
from pathlib import Path

import pytest

from duplex_es.tools import stack as stack_module
from duplex_es.tools.errors import ToolError
from duplex_es.tools.probe import free_port, is_free
from duplex_es.tools.stack import Stack, StackPlan, told_metrics

pytestmark = pytest.mark.redis

# Takes any flags; is ready on --port or --health-port, unless its model says otherwise.
STAND_IN = """#!{python}
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

flags = dict(zip(sys.argv[1::2], sys.argv[2::2]))
print("flags", " ".join(sys.argv[1:]), flush=True)
if flags.get("--model") == "broken":
    sys.exit("no weights here")

class Answer(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(503 if flags.get("--model") == "never" else 200)
        self.end_headers()
        self.wfile.write(b"still loading")
    def log_message(self, *words): pass

HTTPServer(("127.0.0.1", int(flags.get("--port") or flags["--health-port"])), Answer).serve_forever()
"""


@pytest.fixture
def stand_ins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "stand-in"
    script.write_text(STAND_IN.format(python=sys.executable))
    script.chmod(0o755)
    monkeypatch.setattr(stack_module, "program", lambda name: str(script))


class Hearing:
    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []

    def __call__(self, name: str, line: str) -> None:
        self.lines.append((name, line))

    def flags(self, name: str) -> str:
        return next(line for each, line in self.lines if each == name and line.startswith("flags "))


def is_alive(pid: int | None) -> bool:
    assert pid is not None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.usefixtures("stand_ins")
async def test_inside_everything_is_ready_and_afterwards_everything_has_ended() -> None:
    hearing = Hearing()
    async with Stack(StackPlan(gateways=2, workers=2, port=0, model="echo", slots=3), hearing) as stack:
        assert [child.name for child in stack.children] == ["store", "gw-1", "gw-2", "worker-1", "worker-2"]
        assert len({*stack.urls}) == 2
        assert all(is_alive(child.pid) for child in stack.children)
        children = stack.children
    assert not any(is_alive(child.pid) for child in children)
    figures = stack.metrics_urls
    assert list(figures) == ["gw-1", "gw-2", "worker-1", "worker-2"]
    assert len({*figures.values(), *(f"http://127.0.0.1:{port}/metrics" for port in stack.gateway_ports)}) == 6
    store = f"--port {stack.gateway_ports[1]} --redis-url {stack.redis_url} --durability memory"
    measured = "--metrics-port " + figures["gw-2"].removeprefix("http://127.0.0.1:").removesuffix("/metrics")
    assert f"{store} {measured} --default-model echo --name gw-2" in hearing.flags("gw-2")
    assert "--model echo --slots 3 --name worker-1" in hearing.flags("worker-1")


@pytest.mark.usefixtures("stand_ins")
async def test_an_outside_store_is_used_as_it_is_and_not_ended() -> None:
    hearing = Hearing()
    async with Stack(StackPlan(port=0, model="echo", redis_url="redis://elsewhere:1/0"), hearing) as stack:
        assert [child.name for child in stack.children] == ["gw-1", "worker-1"]
        assert stack.redis_url == "redis://elsewhere:1/0"
    assert "--redis-url redis://elsewhere:1/0" in hearing.flags("worker-1")
    name = re.search(r"--name (\S+)", hearing.flags("worker-1"))
    assert name is not None and name[1].startswith("worker-1-"), "another `up` may have a worker-1 there"


@pytest.mark.usefixtures("stand_ins")
async def test_the_pages_of_every_gateway_know_all_gateways() -> None:
    hearing = Hearing()
    async with Stack(StackPlan(gateways=2, port=0, model="echo", pages=True), hearing) as stack:
        sockets = ",".join(f"ws://127.0.0.1:{port}" for port in stack.gateway_ports)
        assert stack.page_urls == [f"http://127.0.0.1:{port}/" for port in stack.gateway_ports]
    for name in ("gw-1", "gw-2"):
        assert f"--pages on --page-gateways {sockets}" in hearing.flags(name)


@pytest.mark.usefixtures("stand_ins")
async def test_a_worker_that_cannot_start_ends_all_with_its_own_words() -> None:
    stack = Stack(StackPlan(port=0, model="broken"), Hearing())
    with pytest.raises(ToolError, match=r"worker-1 ended with code 1(.|\n)*no weights here"):
        async with stack:
            raise AssertionError("must not get here")
    assert not any(is_alive(child.pid) for child in stack.children)


@pytest.mark.usefixtures("stand_ins")
async def test_a_worker_that_never_gets_ready_is_reported_with_what_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack_module, "READY_S", 4.0)
    with pytest.raises(ToolError, match=r"worker-1 is not ready after 4 s \(still loading\)"):
        async with Stack(StackPlan(port=0, model="never"), Hearing()):
            raise AssertionError("must not get here")


async def test_a_taken_port_is_named_before_anything_starts() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        stack = Stack(StackPlan(port=port), Hearing())
        with pytest.raises(ToolError, match=f"port {port} of 127.0.0.1 is in use"):
            async with stack:
                raise AssertionError("must not get here")
        assert stack.children == []


async def test_ports_of_metrics_that_are_given_follow_each_other_and_are_no_gateways() -> None:
    first = next(port for port in iter(free_port, 0) if all(is_free("127.0.0.1", port + more) for more in range(3)))
    plan = StackPlan(gateways=2, workers=1, port=first, metrics_port=first + 1)
    with pytest.raises(ToolError, match=f"port {first + 1} of 127.0.0.1 is in use: give another --metrics-port"):
        async with Stack(plan, Hearing()):
            raise AssertionError("must not get here")


@pytest.mark.usefixtures("stand_ins")
async def test_figures_stand_from_the_given_port_on_the_gateways_first() -> None:
    first = next(port for port in iter(free_port, 0) if all(is_free("127.0.0.1", port + more) for more in range(3)))
    async with Stack(StackPlan(gateways=2, port=0, metrics_port=first, model="echo"), Hearing()) as stack:
        assert list(stack.metrics_urls.values()) == [f"http://127.0.0.1:{first + n}/metrics" for n in range(3)]
        assert told_metrics(stack).startswith(f"metrics: gw-1 http://127.0.0.1:{first}/metrics, gw-2 http://")


@pytest.mark.usefixtures("stand_ins")
async def test_it_is_broken_only_when_the_last_of_a_kind_has_ended() -> None:
    async with Stack(StackPlan(gateways=1, workers=2, port=0, model="echo"), Hearing()) as stack:
        broken = asyncio.create_task(stack.wait_until_broken())
        *_, first, second = stack.children
        os.kill(first.pid or 0, 9)
        await first.wait()
        await asyncio.sleep(0)
        assert not broken.done()
        os.kill(second.pid or 0, 9)
        assert await asyncio.wait_for(broken, 30) == "worker-2 ended with code -9"


@pytest.mark.usefixtures("stand_ins")
async def test_a_cancelled_start_leaves_no_process_behind() -> None:
    stack = Stack(StackPlan(port=0, model="never"), Hearing())

    async def enter() -> None:
        async with stack:
            raise AssertionError("must not get here")

    entering = asyncio.create_task(enter())
    while len(stack.children) < 3 or stack.children[-1].pid is None:
        await asyncio.sleep(0.01)
    entering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await entering
    assert not any(is_alive(child.pid) for child in stack.children)


def test_a_script_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolError, match="duplex-es-gateway is not installed"):
        stack_module.program("duplex-es-gateway")
    (tmp_path / "duplex-es-gateway").touch()
    assert stack_module.program("duplex-es-gateway") == str(tmp_path / "duplex-es-gateway")
