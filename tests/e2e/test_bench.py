"""A whole benchmark against a live service."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from duplex_es.tools.bench import command
from duplex_es.tools.bench.report import BenchReport
from duplex_es.tools.cli import build_parser
from tests.support.services import Deployment

pytestmark = pytest.mark.e2e

SCRIPT = """{"script": [{"on": "end_turn", "every": true, "transcript": "a question",
  "do": [{"audio_ms": 640, "text": "A short answer.", "pace": "real"},
         {"measure": {"0": {"num_tokens_out": 3, "vllm_itls_ms": [20, 40]}, "1": {"audio_duration_s": 0.64}}},
         {"finish": true}]}]}"""


async def test_callers_are_answered_cut_and_resumed_and_the_report_says_so(
    scripted: Deployment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--model", "scripted", "--sessions", "4", "--duration-s", "4", "--ramp-s", "0.5", "--cut-every", "2"]
    words += ["--question-ms", "480", "--pause-ms", "100", "--extra-body", SCRIPT, "--redis-url", scripted.redis_url]
    out, picture = tmp_path / "report.json", tmp_path / "report.png"
    args = build_parser().parse_args(
        ["bench", *scripted.urls, *words, "--json", "--out", str(out), "--plot", str(picture)]
    )
    assert await command.run(args) == 0
    printed = capsys.readouterr()
    report = msgspec.json.decode(printed.out, type=BenchReport)
    assert report == msgspec.json.decode(out.read_bytes(), type=BenchReport)
    assert report.sessions.opened == 4
    assert report.answers.by_status.keys() == {"completed"}
    assert report.answers.cut > 0 and report.resume_ms is not None
    assert report.resume_ms.count == report.answers.cut
    assert report.round_trip_ms is not None
    assert report.service is not None and report.service.up_ms is not None and report.service.down_ms is not None
    assert report.stage_metrics.keys() == {"0", "1"} and report.stage0_tokens == report.stage_metrics["0"]
    tokens, intervals = report.stage0_tokens["num_tokens_out"], report.stage0_tokens["vllm_itls_ms"]
    assert (tokens.count, tokens.mean) == (report.answers.by_status["completed"], 3)
    assert (intervals.count, intervals.mean) == (2 * tokens.count, 30)
    assert "4 sessions" in printed.err
    assert picture.stat().st_size > 0
