"""The argument tree."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import pytest

from duplex_es import __version__
from duplex_es.tools import cli
from duplex_es.tools.errors import ToolError
from duplex_es.tools.lifetime import INTERRUPTED
from duplex_es.tools.log import listing

pytestmark = pytest.mark.unit


def leaves(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    groups = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not groups:
        yield parser
    for group in groups:
        for child in group.choices.values():
            yield from leaves(child)


def test_every_leaf_runs_something_and_explains_every_flag() -> None:
    found = {parser.prog.removeprefix("duplex-es "): parser for parser in leaves(cli.build_parser())}
    reading = ("show", "tail", "verify", "audio", "stats", "diff", "export", "import", "report")
    log = {f"log {name}" for name in (*reading, "replay", "fork", "erase")}
    log |= {f"archive {name}" for name in ("run", "add", "key", "index")}
    assert set(found) == {"up", "talk", "demo", "bench", "sessions", "doctor", "models", "plan", "completion"} | log
    for parser in found.values():
        assert parser.description
        assert callable(parser.get_default("run"))
        assert all(action.help for action in parser._actions), parser.prog


def test_the_defaults_suit_one_machine() -> None:
    up = cli.build_parser().parse_args(["up"])
    assert (up.gateways, up.workers, up.model, up.port, up.redis_url) == (1, 1, "cascade", 8099, None)
    talk = cli.build_parser().parse_args(["talk", "--wav", "q.wav"])
    assert talk.url == ["ws://127.0.0.1:8099/v1/realtime"]


def test_help_shows_defaults_only_where_there_are_some() -> None:
    for parser in leaves(cli.build_parser()):
        assert "default: None" not in parser.format_help()
        assert "default: []" not in parser.format_help()
    up = next(parser for parser in leaves(cli.build_parser()) if parser.prog.endswith(" up"))
    assert "(default: 8099)" in " ".join(up.format_help().split())


def test_several_urls_are_several_gateways() -> None:
    assert cli.build_parser().parse_args(["talk", "ws://a", "ws://b", "--wav", "q"]).url == ["ws://a", "ws://b"]


def test_the_store_comes_from_the_environment_unless_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUPLEX_ES_REDIS_URL", "redis://from-env:1/0")
    assert cli.build_parser().parse_args(["sessions"]).redis_url == "redis://from-env:1/0"
    given = cli.build_parser().parse_args(["log", "show", "s", "--redis-url", "redis://given:1/0"])
    assert given.redis_url == "redis://given:1/0"


@pytest.mark.parametrize("words", [[], ["log"], ["up", "--gateways", "0"], ["up", "--port", "x"], ["nonsense"]])
def test_a_wrong_command_line_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(words)
    assert caught.value.code == 2
    assert "usage: duplex-es" in capsys.readouterr().err


def test_the_version_is_the_packages(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["--version"])
    assert capsys.readouterr().out == f"duplex-es {__version__}\n"


@pytest.mark.parametrize(("outcome", "code"), [(0, 0), (5, 5), (INTERRUPTED, INTERRUPTED)])
def test_the_commands_code_is_the_exit_code(monkeypatch: pytest.MonkeyPatch, outcome: int, code: int) -> None:
    async def run(args: argparse.Namespace) -> int:
        return outcome

    monkeypatch.setattr(listing, "run", run)
    assert cli.main(["sessions"]) == code


def test_trouble_is_one_line_on_stderr_and_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def run(args: argparse.Namespace) -> int:
        raise ToolError("the store is away")

    monkeypatch.setattr(listing, "run", run)
    assert cli.main(["sessions"]) == 1
    assert capsys.readouterr().err == "duplex-es: the store is away\n"


def test_ctrl_c_is_the_ordinary_end_of_what_runs_until_it_comes() -> None:
    found = {
        parser.prog.removeprefix("duplex-es "): parser.get_default("interrupted")
        for parser in leaves(cli.build_parser())
    }
    assert {name for name, code in found.items() if code == 0} == {"up", "archive run"}
