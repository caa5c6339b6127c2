"""The flags that read the log."""

from __future__ import annotations

import pytest

from duplex_es.tools import cli

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("command", ["log show", "log verify", "log audio", "log stats", "sessions"])
def test_a_file_and_a_store_exclude_each_other(command: str) -> None:
    parse = cli.build_parser().parse_args
    assert str(parse([*command.split(), "--file", "x.dxlog"]).file) == "x.dxlog"
    with pytest.raises(SystemExit):
        parse([*command.split(), "--file", "x.dxlog", "--redis-url", "redis://here"])
