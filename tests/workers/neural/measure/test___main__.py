"""The program that measures a device, on none: everything runs, and the findings are in one file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from workers.neural.measure.__main__ import main

pytestmark = [pytest.mark.neural, pytest.mark.timeout(300)]


def test_all_parts_run_on_a_processor_and_find_nothing_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "found.json"
    arguments = ["--shape", "tiny", "--slots", "2", "--int8-slots", "1", "--seconds", "0.5", "--steps", "2"]
    assert main(["--out", str(out), "--threads", "1", *arguments]) == 0
    found = json.loads(out.read_text())
    assert found["stepper"] == "Stepper"
    assert found["check_fp32_oracle"]["error"] < 1e-5
    assert found["check_fp32_int8_oracle"]["error"] < 0.05
    for check in ("isolation", "int8_isolation"):
        assert found[f"check_fp32_{check}"]["beside_others"] == found[f"check_fp32_{check}"]["frames"]
    for check in ("recording", "replay_fast", "replay_exact", "int8_replay_exact"):
        assert found[f"check_fp32_{check}"]["equal"] == found[f"check_fp32_{check}"]["frames"]
    for kind in ("bf16", "int8"):
        assert found[f"{kind}_paced_joins"]["beats"] == 6
        assert {"p50", "p95", "p99", "max"} == set(found[f"{kind}_paced_rebuilds"]["after_due_ms"])
        assert [one["frames"] for one in found[f"{kind}_rebuild_alone"]] == [24, 48]
    assert found["codec_1"]["state_mib"] > 0
    assert "bf16_load" in capsys.readouterr().out


def test_a_part_that_fails_is_told_and_costs_no_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "found.json"
    arguments = ["--shape", "tiny", "--slots", "none", "--steps", "1", "--parts", "bf16,codec"]
    with pytest.raises(ValueError, match="slots is 'none'"):
        main(["--out", str(out), *arguments])
    arguments[3] = "1"
    assert main(["--out", str(out), *arguments, "--window-frames", "4", "--seconds", "0.1"]) == 1
    found = json.loads(out.read_text())
    assert "failed" in found["bf16_load"] and "encode_ms" in found["codec_1"]
