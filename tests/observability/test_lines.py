"""Lines for people and lines for machines."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextvars import copy_context

import pytest

from duplex_es.observability import lines

pytestmark = pytest.mark.unit

QUIET = ("uvicorn", "websockets", "httpx", "httpcore", "urllib3", "opentelemetry")


@pytest.fixture(autouse=True)
def _root_as_before() -> Iterator[None]:
    root, quiet = logging.getLogger(), [logging.getLogger(name) for name in QUIET]
    before = root.handlers[:], root.level, [logger.level for logger in quiet]
    yield
    root.handlers[:], root.level = before[:2]
    for logger, level in zip(quiet, before[2], strict=True):
        logger.setLevel(level)


def one_line(capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    """The only line that was written."""
    (text,) = capsys.readouterr().err.splitlines()
    line: dict[str, object] = json.loads(text)
    return line


def test_a_text_line_has_its_time_level_and_place(capsys: pytest.CaptureFixture[str]) -> None:
    lines.configure("text", "info")
    logging.getLogger("gateway.x").info("session=%s opened", "mine")
    logging.getLogger("gateway.x").debug("not this one")
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("INFO    gateway.x: session=mine opened")


def test_a_json_line_has_its_event_and_its_values_apart(capsys: pytest.CaptureFixture[str]) -> None:
    lines.configure("json", "info", worker="w1")
    logging.getLogger("workers.x").info("session=%s claim=%d claimed, %d of %d slots taken", "mine", 3, 1, 8)
    line = one_line(capsys)
    assert line["event"] == "claimed, … of … slots taken"
    assert line["message"] == "session=mine claim=3 claimed, 1 of 8 slots taken"
    assert (line["session"], line["claim"], line["worker"]) == ("mine", 3, "w1")
    assert (line["level"], line["logger"]) == ("info", "workers.x")
    assert str(line["time"]).endswith("Z")


def test_inside_a_session_every_line_says_which_also_those_of_libraries(capsys: pytest.CaptureFixture[str]) -> None:
    lines.configure("json", "info")

    def within() -> None:
        lines.SPOT.set(lines.Spot("mine", 2, "ab" * 16, lambda: 41))
        logging.getLogger("redis").warning("connection lost")

    copy_context().run(within)
    line = one_line(capsys)
    assert (line["session"], line["incarnation"], line["seq"], line["trace_id"]) == ("mine", 2, 41, "ab" * 16)
    logging.getLogger("redis").warning("outside")
    assert "session" not in one_line(capsys)


def test_an_error_is_one_line_with_its_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    lines.configure("json", "warning")
    try:
        raise ValueError("broken\nin two")
    except ValueError:
        logging.getLogger("gateway.x").exception("failed: é")
    line = one_line(capsys)
    assert (line["level"], line["message"]) == ("error", "failed: é")
    assert "broken" in str(line["error"])


def test_a_message_that_is_no_template_is_its_own_event(capsys: pytest.CaptureFixture[str]) -> None:
    lines.configure("json", "info")
    logging.getLogger("x").info("100 % done")
    logging.getLogger("x").info("%(a)s", {"a": "b"})
    first, second = (json.loads(text) for text in capsys.readouterr().err.splitlines())
    assert first["event"] == first["message"] == "100 % done"
    assert second["message"] == "b"


def test_libraries_that_would_write_down_what_is_said_only_warn(capsys: pytest.CaptureFixture[str]) -> None:
    lines.configure("text", "debug")
    for name in ("uvicorn.error", "websockets.client", "httpx", "httpcore.connection", "urllib3.connectionpool"):
        logging.getLogger(name).info("chatter")
    assert capsys.readouterr().err == ""
