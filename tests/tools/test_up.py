"""The command that keeps a stack up."""

from __future__ import annotations

from types import TracebackType
from typing import ClassVar, Self

import pytest

from duplex_es.tools import up
from duplex_es.tools.children import Say
from duplex_es.tools.cli import build_parser
from duplex_es.tools.stack import StackPlan

pytestmark = pytest.mark.unit


class StandInStack:
    """Is ready at once and breaks at once."""

    plans: list[StackPlan]
    urls = ("ws://127.0.0.1:1/v1/realtime", "ws://127.0.0.1:2/v1/realtime")
    redis_url = "redis://127.0.0.1:3/0"
    page_urls = ("http://127.0.0.1:1/", "http://127.0.0.1:2/")
    metrics_urls: ClassVar[dict[str, str]] = {
        "gw-1": "http://127.0.0.1:4/metrics",
        "worker-1": "http://127.0.0.1:5/metrics",
    }

    def __init__(self, plan: StackPlan, say: Say) -> None:
        self.plans.append(plan)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    async def wait_until_broken(self) -> str:
        return "store ended with code -9"


async def test_the_flags_become_the_plan_and_one_line_says_where_to_connect(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plans: list[StackPlan] = []
    monkeypatch.setattr(StandInStack, "plans", plans, raising=False)
    monkeypatch.setattr(up, "Stack", StandInStack)
    counts = ["--gateways", "2", "--workers", "3", "--slots", "4", "--port", "9000", "--metrics-port", "9100"]
    model = ["--model", "echo", "--chat-url", "http://c", "--worker-option=--a", "--worker-option=b"]
    assert await up.run(build_parser().parse_args(["up", *counts, *model])) == 1
    assert plans == [
        StackPlan(
            gateways=2,
            workers=3,
            model="echo",
            port=9000,
            metrics_port=9100,
            slots=4,
            worker_options=("--chat-url", "http://c", "--a", "b"),
            pages=True,
        ),
    ]
    printed = capsys.readouterr().out
    assert "connect to ws://127.0.0.1:1/v1/realtime or ws://127.0.0.1:2/v1/realtime" in printed
    assert "talk to it in a browser: http://127.0.0.1:1/" in printed
    assert "metrics: gw-1 http://127.0.0.1:4/metrics, worker-1 http://127.0.0.1:5/metrics" in printed
    assert "store ended with code -9" in printed


@pytest.mark.parametrize(
    ("flags", "served"),
    [
        ([], True),
        (["--host", "0.0.0.0"], False),
        (["--host", "0.0.0.0", "--pages"], True),
        (["--no-pages"], False),
    ],
)
async def test_the_pages_are_served_where_nobody_else_can_reach_them_or_when_asked_for(
    monkeypatch: pytest.MonkeyPatch, flags: list[str], served: bool
) -> None:
    plans: list[StackPlan] = []
    monkeypatch.setattr(StandInStack, "plans", plans, raising=False)
    monkeypatch.setattr(up, "Stack", StandInStack)
    await up.run(build_parser().parse_args(["up", *flags]))
    assert plans[0].pages is served
