"""Carrying a session away."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from duplex_es.tools.errors import ToolError
from duplex_es.tools.log import carry
from tests.support.call_files import RECORDING

pytestmark = pytest.mark.unit


def arguments(path: Path, **more: object) -> argparse.Namespace:
    return argparse.Namespace(session=None, file=path, redis_url="", json=False, **more)


async def test_an_export_never_replaces_a_file(tmp_path: Path) -> None:
    there = tmp_path / "there.dxlog"
    there.write_bytes(b"mine")
    with pytest.raises(ToolError, match="is there already"):
        await carry.run_export(arguments(RECORDING, out=there))
    assert there.read_bytes() == b"mine"
