"""The operating guide does what it says: its commands run, in order, and print what stands there."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from pathlib import Path

import pytest

from duplex_es.tools import cli
from tests.support.processes import start_store

pytestmark = [pytest.mark.redis, pytest.mark.timeout(120)]

GUIDES = Path(__file__).resolve().parents[2] / "docs" / "guides"
BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)


def examples() -> list[tuple[str, str]]:
    """The commands and what is printed after each."""
    found: list[tuple[str, str]] = []
    for block in BLOCK.findall((GUIDES / "operating.md").read_text()):
        for part in block.split("$ ", 1)[1].split("\n$ "):
            command, _, output = part.partition("\n")
            found.append((command, output.strip("\n")))
    return found


def test_the_commands_of_the_operating_guide_print_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store = start_store("valkey")
    try:
        monkeypatch.setenv("DUPLEX_ES_REDIS_URL", store.url)
        shutil.copy(GUIDES / "call.dxlog", tmp_path)
        monkeypatch.chdir(tmp_path)
        commands = examples()
        assert len(commands) >= 10
        for command, output in commands:
            program, *words = shlex.split(os.path.expandvars(command))
            assert program == "duplex-es"
            assert cli.main(words) == 0, command
            assert capsys.readouterr().out.strip("\n") == output, command
        assert cli.main(["log", "import", "call.dxlog", "--into", store.url]) == 1
        assert "has a session 'call-1' already" in capsys.readouterr().err
        for words in (["verify"], ["stats"], ["show", "--at", "174"]):
            assert cli.main(["log", words[0], "call-1", *words[1:], "--json"]) == 0
            from_store = capsys.readouterr().out
            assert cli.main(["log", *words, "--file", "call.dxlog", "--json"]) == 0
            assert capsys.readouterr().out == from_store
    finally:
        store.stop()
