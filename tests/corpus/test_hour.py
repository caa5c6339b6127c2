"""The benchmark of an hour's call runs; on a call of three minutes, whatever else this machine does."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.corpus.hour import LIMIT_MB, LIMIT_S, LIMITED, make_call, measure

pytestmark = [pytest.mark.bench, pytest.mark.timeout(300)]


def test_reading_a_call_takes_little_time_and_memory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "call.dxlog"
    asyncio.run(make_call(path, 3))
    found = measure(path, 3)
    assert set(found) >= {*LIMITED, "replay --check"}
    for name in LIMITED:
        assert found[name].peak_mb < LIMIT_MB and found[name].busy_s < LIMIT_S
    assert "of 300 MB" in capsys.readouterr().out
