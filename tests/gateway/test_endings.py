"""Every way a connection ends has its close code, its last frame, and its word in the log."""

from __future__ import annotations

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
from duplex_es.protocol import (
    ERRORS,
    Error,
    Frame,
    ProtocolError,
    SessionExpired,
    SessionReplaced,
    SessionResyncRequired,
)
from duplex_es.protocol.dialects import BETA, DUPLEX, GA, NATIVE
from gateway import endings
from gateway.peer import Gone
from gateway.watching import SocketWatch

pytestmark = pytest.mark.unit

SEAT = Attachment(SessionRef("mine", 0), 1, "g")


@pytest.mark.parametrize(
    ("error", "last", "close", "detaches"),
    [
        (Fenced(), SessionReplaced, (1000, "session_replaced"), False),
        (SessionUnknown(), SessionExpired, (1000, "session_expired"), False),
        (PositionGone(7), SessionResyncRequired, (1000, ""), True),
        (TailLost(7), SessionResyncRequired, (1000, ""), True),
        (LogUnavailable(), Error, (1013, "log_unavailable"), True),
        (ConfigurationError(), Error, (1000, ""), True),
    ],
)
def test_each_error_of_the_log_has_its_ending(
    error: LogError, last: type[Frame], close: tuple[int, str], detaches: bool
) -> None:
    ending = endings.for_log_error(error, SEAT)
    assert type(ending.last) is last
    assert (ending.code, ending.reason) == close
    assert (ending.cause is not None) == detaches


def test_a_goodbye_and_a_loss_are_told_apart() -> None:
    assert endings.lost(Gone(1000)).cause == "client_closed"
    assert endings.lost(Gone(1006)).cause == "connection_lost"


def test_what_fails_at_the_door_is_told_flat_and_what_fails_to_open_in_the_envelope() -> None:
    error = ProtocolError("unsupported", "no")
    assert endings.refused_at_the_door(error).last is error
    assert endings.refused(error).last == Error.of(error)
    assert endings.unavailable_at_the_door().last is endings.LOG_UNAVAILABLE


def test_ends_that_leave_the_session_behind_say_why() -> None:
    assert endings.binary_frame().cause == "binary_frame"
    assert endings.failed().cause == "gateway_failed"
    assert endings.unavailable().cause == "log_unavailable"
    assert endings.replaced(SEAT).cause is None
    assert endings.gone_from_log(SEAT, "x").cause is None


class Heard:
    """A peer that keeps how it was closed."""

    def __init__(self, dialect: str) -> None:
        self.dialect = dialect
        self.watch = SocketWatch()
        self.close_: tuple[int, str, object] | None = None

    async def close(self, code: int, reason: str, last: object) -> None:
        """Note it."""
        self.close_ = (code, reason, last)


BUSY = ProtocolError("duplex_session_busy", "full")
CASES = {
    "the session is closed": (endings.CLOSED, 1000, 1000),
    "the session expired": (endings.EXPIRED, 1000, 1000),
    "the gateway stops": (endings.STOPPING, 1012, 1001),
    "all slots are taken": (endings.refused(BUSY), 1000, 1013),
    "the client asked for what is not there": (endings.refused(ProtocolError("unsupported", "no")), 1000, 1000),
    "the model cannot be opened": (endings.refused(ProtocolError("runtime_open_failed", "no")), 1000, 1011),
    "the door is closed": (endings.refused_at_the_door(ProtocolError("config_timeout", "no")), 1000, 1000),
    "the log is gone": (endings.unavailable(), 1013, 1013),
    "the gateway failed": (endings.failed(), 1000, 1011),
    "the session failed": (endings.closed_after(ERRORS["internal_error"]), 1000, 1011),
    "frames are missing": (endings.out_of_step("mine"), 1000, 1011),
    "a newer socket took over": (endings.replaced(SEAT), 1000, 1000),
    "a binary frame": (endings.binary_frame(), 1003, 1003),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dialect", [DUPLEX, NATIVE, GA, BETA])
async def test_stock_clients_are_told_by_the_close_code_whether_to_come_back(name: str, dialect: str) -> None:
    ending, code, stock_code = CASES[name]
    peer = Heard(dialect)
    await endings.conclude(peer, ending)  # type: ignore[arg-type]
    assert peer.close_ is not None
    assert peer.close_[:2] == (stock_code if dialect in (GA, BETA) else code, ending.reason)


async def test_a_gap_is_a_resync_for_seed_clients_and_a_failure_for_stock_ones() -> None:
    told = []
    for dialect in (DUPLEX, GA):
        peer = Heard(dialect)
        await endings.conclude(peer, endings.out_of_step("mine"))  # type: ignore[arg-type]
        assert peer.close_ is not None
        told.append(peer.close_[2])
    assert told == [SessionResyncRequired(session_id="mine", reason="journal_gap"), Error.of(endings.OUT_OF_STEP)]
