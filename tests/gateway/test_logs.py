"""Lines for people and lines for machines."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest

from gateway import logs

pytestmark = pytest.mark.unit


@pytest.fixture(autouse=True)
def _root_as_before() -> Iterator[None]:
    root, uvicorn = logging.getLogger(), logging.getLogger("uvicorn")
    before = root.handlers[:], root.level, uvicorn.level
    yield
    root.handlers[:], root.level, uvicorn.level = before


def test_a_text_line_has_its_time_level_and_place(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("text", "info")
    logging.getLogger("gateway.x").info("session=%s opened", "mine")
    logging.getLogger("gateway.x").debug("not this one")
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("INFO    gateway.x: session=mine opened")


def test_a_json_line_is_one_object_also_with_a_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("json", "warning")
    try:
        raise ValueError("broken\nin two")
    except ValueError:
        logging.getLogger("gateway.x").exception("failed: é")
    (text,) = capsys.readouterr().err.splitlines()
    line = json.loads(text)
    assert (line["level"], line["logger"], line["message"]) == ("error", "gateway.x", "failed: é")
    assert line["time"].endswith("Z")
    assert "broken" in line["error"]


def test_uvicorn_only_warns(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("text", "debug")
    logging.getLogger("uvicorn.error").info("chatter")
    assert capsys.readouterr().err == ""
