"""Every way a connection ends has its close code, its last frame, and its word in the log."""

from __future__ import annotations

import json

import pytest

from duplex_es.log.api import Attachment, SessionRef
from duplex_es.log.errors import (
    ConfigurationError,
    Fenced,
    LogError,
    LogUnavailable,
    PositionGone,
    SessionUnknown,
    TailLost,
)
from duplex_es.protocol import ProtocolError
from gateway import endings
from gateway.peer import Gone

pytestmark = pytest.mark.unit

SEAT = Attachment(SessionRef("mine", 0), 1, "g")


@pytest.mark.parametrize(
    ("error", "last", "close", "detaches"),
    [
        (Fenced(), "session.replaced", (1000, "session_replaced"), False),
        (SessionUnknown(), "session.expired", (1000, "session_expired"), False),
        (PositionGone(7), "session.resync_required", (1000, ""), True),
        (TailLost(7), "session.resync_required", (1000, ""), True),
        (LogUnavailable(), "error", (1013, "log_unavailable"), True),
        (ConfigurationError(), "error", (1000, ""), True),
    ],
)
def test_each_error_of_the_log_has_its_ending(
    error: LogError, last: str, close: tuple[int, str], detaches: bool
) -> None:
    ending = endings.for_log_error(error, SEAT)
    assert json.loads(ending.last or "")["type"] == last
    assert (ending.code, ending.reason) == close
    assert (ending.cause is not None) == detaches


def test_a_goodbye_and_a_loss_are_told_apart() -> None:
    assert endings.lost(Gone(1000)).cause == "client_closed"
    assert endings.lost(Gone(1006)).cause == "connection_lost"


def test_what_fails_at_the_door_is_told_flat_and_what_fails_to_open_in_the_envelope() -> None:
    error = ProtocolError("unsupported", "no")
    assert json.loads(endings.refused_at_the_door(error, 1008).last or "")["error"] == "no"
    assert json.loads(endings.refused(error).last or "")["error"]["code"] == "unsupported"
    assert json.loads(endings.unavailable_at_the_door().last or "")["code"] == "log_unavailable"


def test_ends_that_leave_the_session_behind_say_why() -> None:
    assert endings.binary_frame().cause == "binary_frame"
    assert endings.failed().cause == "gateway_failed"
    assert endings.unavailable().cause == "log_unavailable"
    assert endings.replaced(SEAT).cause is None
    assert endings.gone_from_log(SEAT, "x").cause is None
