"""The command line of a benchmark."""

from __future__ import annotations

import argparse
from pathlib import Path

import msgspec
import pytest

from duplex_es.client import write_pcm16_wav
from duplex_es.tools.bench import command
from duplex_es.tools.bench.report import BenchReport
from duplex_es.tools.cli import build_parser
from duplex_es.tools.errors import ToolError

pytestmark = pytest.mark.unit


def arguments(*words: str) -> argparse.Namespace:
    return build_parser().parse_args(["bench", *words])


def test_a_recording_is_padded_to_whole_appends(tmp_path: Path) -> None:
    write_pcm16_wav(tmp_path / "q.wav", bytes(2 * 16_000 * 130 // 1000), sample_rate_hz=16_000)
    plan = command.plan_from(arguments("--wav", str(tmp_path / "q.wav"), "--chunk-ms", "80"))
    assert plan.question.duration_ms == 160


def test_what_is_no_json_object_is_refused_by_its_flag() -> None:
    with pytest.raises(ToolError, match="--extra-body"):
        command.plan_from(arguments("--extra-body", "[1]"))


async def test_a_service_that_is_not_there_is_counted_and_not_raised(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "report.json"
    words = ("ws://127.0.0.1:9/v1/realtime", "--sessions", "2", "--duration-s", "0.1", "--ramp-s", "0", "--quiet")
    assert await command.run(arguments(*words, "--out", str(out))) == 1
    report = msgspec.json.decode(out.read_bytes(), type=BenchReport)
    assert report.errors == {"connection_failed": 2}
    printed = capsys.readouterr().out
    assert "2 connection_failed" in printed
    assert "no connection to ws://127.0.0.1:9/v1/realtime" in printed
    assert "Times" not in printed, "a heading with nothing under it"
