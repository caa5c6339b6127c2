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

pytestmark = [pytest.mark.redis, pytest.mark.timeout(300)]

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


def compare_store_and_file(capsys: pytest.CaptureFixture[str]) -> None:
    """The imported call reads as the file it came from."""
    for words in (["verify"], ["stats"], ["show", "--at", "174"]):
        assert cli.main(["log", words[0], "call-1", *words[1:], "--json"]) == 0
        from_store = capsys.readouterr().out
        assert cli.main(["log", *words, "--file", "call.dxlog", "--json"]) == 0
        assert capsys.readouterr().out == from_store


def test_the_commands_of_the_operating_guide_print_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store = start_store("valkey")
    try:
        monkeypatch.setenv("DUPLEX_ES_REDIS_URL", store.url)
        for name in ("call.dxlog", "call.script.json"):
            shutil.copy(GUIDES / name, tmp_path)
        monkeypatch.chdir(tmp_path)
        for name, value in (("", "archive"), ("_KEYS", "keys"), ("_KEY_FILE", "operator.key")):
            monkeypatch.setenv(f"DUPLEX_ES_ARCHIVE{name}", value)
        commands = examples()
        assert len(commands) >= 10
        for command, output in commands:
            program, *words = shlex.split(os.path.expandvars(command))
            assert program == "duplex-es"
            if words[:2] == ["archive", "add"]:
                compare_store_and_file(capsys)
            assert cli.main(words) == 0, command
            printed = capsys.readouterr().out.strip("\n")
            assert re.fullmatch(re.escape(output).replace(r"\.\.\.", ".*"), printed), f"{command}\n{printed}"
        assert cli.main(["log", "import", "call.dxlog", "--into", store.url]) == 1
        assert "has a session 'call-1' already" in capsys.readouterr().err
    finally:
        store.stop()
