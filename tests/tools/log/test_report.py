"""The command that writes the page of a call."""

from __future__ import annotations

from pathlib import Path

import pytest

from duplex_es.log.memory import MemoryLog
from duplex_es.tools import show
from duplex_es.tools.errors import ToolError
from duplex_es.tools.log import report
from tests.support.call_files import arguments
from tests.support.recorded_call import record_call

pytestmark = pytest.mark.unit


async def test_it_writes_one_page_and_never_over_another(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "call.html"
    assert await report.run(arguments(html=out, audio=False)) == 0
    assert capsys.readouterr().out.strip() == f"{out}: the timeline of call-1#0, without sound"
    assert out.read_text().startswith("<!doctype html>")
    with pytest.raises(ToolError, match="is there already"):
        await report.run(arguments(html=out, audio=False))
    with pytest.raises(ToolError, match="cannot write"):
        await report.run(arguments(html=tmp_path / "no" / "call.html", audio=False))


async def test_a_call_of_a_store_is_written_as_one_of_a_file_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = MemoryLog()
    await record_call(log)
    monkeypatch.setattr(show, "open_log", lambda url, settings: log)
    wanted = arguments(html=tmp_path / "call.html", audio=True)
    wanted.file, wanted.archive, wanted.redis_url = None, None, "memory://"
    assert await report.run(wanted) == 0
    assert "call-1" in wanted.html.read_text()


def test_a_page_that_is_not_installed_is_named() -> None:
    with pytest.raises(ToolError, match="not installed"):
        report.asset("timeline/nothing.js")
