"""What the shells are told, and by bash itself what it makes of it."""

from __future__ import annotations

import builtins
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from duplex_es.tools import cli
from duplex_es.tools.completion import SHELLS, WHERE, script
from duplex_es.tools.errors import ToolError

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_gets_a_script_that_knows_all_commands(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["completion", shell]) == 0
    found = capsys.readouterr().out
    for word in ("sessions", "log", "replay", "fork", "from-seq", "completion"):
        assert word in found, word
    assert WHERE[shell].startswith(f"duplex-es completion {shell}")


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        (["log", "for"], ["fork"]),
        (["log", "repl"], ["replay"]),
        (["sessions", "--state", "cl"], ["claimed", "closed"]),
        (["log", "replay", "--from"], ["--from-seq"]),
        (["completion", "f"], ["fish"]),
    ],
)
def test_bash_completes_commands_flags_and_choices(tmp_path: Path, typed: list[str], completed: list[str]) -> None:
    bash = shutil.which("bash")
    assert bash is not None
    path = tmp_path / "completion"
    path.write_text(script(cli.build_parser(), "bash"))
    words = " ".join(["duplex-es", *typed])
    ask = (
        f"source {path}; COMP_WORDS=({words}); COMP_CWORD={len(typed)}; COMP_LINE='{words}'; "
        "_shtab_duplex_es; printf '%s\\n' \"${COMPREPLY[@]}\""
    )
    done = subprocess.run([bash, "-c", ask], capture_output=True, text=True, timeout=20, check=False)
    assert sorted(word.strip() for word in done.stdout.split()) == completed, done.stderr


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *rest: Any) -> Any:
        if name == "shtab":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ToolError, match=r"install duplex-es\[tools\]"):
        script(cli.build_parser(), "bash")
