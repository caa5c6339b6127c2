"""The guides do what they say: their blocks run, in order, against a service that is up."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from tests.support.up import up

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

ROOT = Path(__file__).resolve().parents[2]
GUIDE = ROOT / "docs" / "guides" / "client.md"
BLOCK = re.compile(r"<!-- not run: needs a service; [^>]+ -->\n```python\n(?P<code>.*?)```", re.DOTALL)


@pytest.fixture(scope="module")
def urls() -> Iterator[list[str]]:
    """``duplex-es up --model scripted --gateways 2``."""
    with up("scripted", gateways=2) as service:
        yield service.urls


async def run(code: str, names: dict[str, Any], title: str) -> None:
    """Run one block as ``python -m asyncio`` would."""
    result = eval(compile(code, title, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
    if inspect.isawaitable(result):
        await result


async def test_the_blocks_of_the_client_guide_run_in_order(urls: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    blocks = [match["code"] for match in BLOCK.finditer(GUIDE.read_text())]
    assert len(blocks) >= 10
    names: dict[str, Any] = {}
    printed = StringIO()
    with redirect_stdout(printed):
        for number, block in enumerate(blocks, 1):
            code = block.replace("ws://127.0.0.1:8099", urls[0]).replace("ws://127.0.0.1:8100", urls[1])
            await run(code, names, f"block {number} of {GUIDE.name}")

    lines = printed.getvalue().splitlines()
    assert "completed This is a scripted answer. 600 ms" in lines
    assert "cancelled" in lines
    assert "600.0 ms" in lines, "the answer over two processes is not whole"
    assert "input_audio_buffer_empty" in lines
    assert f"This is a scripted answer. {600 * 48}" in lines
