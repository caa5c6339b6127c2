"""Every way a resume can be refused, in the order of the checks, in every dialect that can resume; and what it costs.

A refusal ends its own connection only: the token stays good, and the socket that holds the session notices nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from duplex_es.log.api import SessionLog
from duplex_es.log.errors import ConfigurationError, LogUnavailable
from duplex_es.log.memory import MemoryLog
from duplex_es.protocol.dialects import stock_code
from tests.gateway.stage import Client, FakeWorker, Gateway, joined, running, until

pytestmark = pytest.mark.e2e

DIALECTS = {"duplex": "autostart=0", "ga": "dialect=ga&resume=1", "beta": "dialect=beta&resume=1"}
SHOWN = 10
"""Frames of the session: ``session.updated`` and nine words."""


class RefusingLog(MemoryLog):
    """A log whose next ``attach`` fails in a way of its own."""

    failure: Exception | None = None

    async def attach(self, ref, **given):  # type: ignore[no-untyped-def]
        """See ``SessionLog``."""
        failure, self.failure = self.failure, None
        if failure is not None:
            raise failure
        return await super().attach(ref, **given)


@dataclass
class Row:
    """One row: what is wrong with the request or the session, and what is said."""

    check: str
    code: str
    asked: dict[str, Any] = field(default_factory=dict)
    after_seq: int = SHOWN
    trimmed_below: int = 0
    acknowledged: int = 0
    resumable: bool = True
    failure: Exception | None = None
    close: int = 1000


RESYNC = "session.resync_required"
WRONG = {"resume_token": "rt_guess"}
TABLE = [
    Row("1 session_id empty", "invalid_session_resume", {"session_id": ""}),
    Row("1 session_id no string", "invalid_session_resume", {"session_id": 7}),
    Row("1 incarnation below 0", "invalid_session_resume", {"incarnation": -1}),
    Row("1 token empty", "invalid_session_resume", {"resume_token": ""}),
    Row("1 seq below 0", "invalid_session_resume", {"last_received_server_event_seq": -1}),
    Row("1 seq no integer", "invalid_session_resume", {"last_received_server_event_seq": "4"}),
    Row("2 unknown", "session_resume_expired", {"session_id": "nobody"}),
    Row("2 unknown, before the token", "session_resume_expired", {"session_id": "nobody", **WRONG}),
    Row("3 the model cannot", "unsupported_session_resume", resumable=False),
    Row("3 before the incarnation", "unsupported_session_resume", {"incarnation": 5}, resumable=False),
    Row("4 opened again since", "session_resume_conflict", {"incarnation": 5}),
    Row("4 before the token", "session_resume_conflict", {"incarnation": 5, **WRONG}),
    Row("5 wrong token", "invalid_resume_token", WRONG),
    Row("5 before a gap", "invalid_resume_token", WRONG, after_seq=2, trimmed_below=6),
    Row("5 before a conflict", "invalid_resume_token", WRONG, after_seq=SHOWN + 1),
    Row("6 trimmed", RESYNC, after_seq=4, trimmed_below=6),
    Row("6 acknowledged", RESYNC, after_seq=4, acknowledged=5),
    Row("7 above the last frame", "session_resume_conflict", after_seq=SHOWN + 1),
    Row("8 the log refuses", "runtime_resume_failed", failure=ConfigurationError("no"), close=1011),
    Row("8 the log is away", "log_unavailable", failure=LogUnavailable("silent"), close=1013),
]


@pytest.fixture
def log() -> RefusingLog:
    return RefusingLog()


@pytest.fixture
async def gateway(log: RefusingLog) -> AsyncIterator[Gateway]:
    async with running(log) as gateway:
        yield gateway


async def told(client: Client, dialect: str) -> tuple[str, int | None]:
    """The one frame that is heard, by its code, as the table names it; and the close code."""
    frames = await client.hear_all()
    assert len(frames) == 1, frames
    (frame,) = frames
    assert "server_event_seq" not in frame
    if frame["type"] == RESYNC:
        return RESYNC, client.socket.close_code
    assert frame["type"] == "error"
    body = frame["error"]
    assert isinstance(body, str) is (dialect == "duplex"), frame
    return frame["code"] if dialect == "duplex" else body["code"], client.socket.close_code


async def prepare(log: SessionLog, worker: FakeWorker, client: Client, row: Row) -> dict[str, Any]:
    """An open session of ten frames, as the row wants it."""
    created = await client.open(session_id="mine")
    await client.say("input.text.append", text=f"say {SHOWN - 1}")
    for _ in range(SHOWN - 1):
        await client.hear_type("response.output_text.delta")
    if row.trimmed_below:
        claim = worker.claims["mine"]
        head = await log.head("mine")
        await log.trim_history(claim, input_before=head.input, output_before=row.trimmed_below)
    if row.acknowledged:
        assert isinstance(log, MemoryLog)
        log._current["mine"].acknowledged_seq = row.acknowledged
    return created


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.check)
async def test_a_refusal_has_its_code_and_changes_nothing(
    log: RefusingLog, gateway: Gateway, row: Row, dialect: str
) -> None:
    async with (
        FakeWorker(log, resumable=row.resumable).working() as worker,
        joined(gateway.url()) as owner,
    ):
        created = await prepare(log, worker, owner, row)
        asked = {"incarnation": 0, "resume_token": "rt_none", "session_id": "mine", **created}
        log.failure = row.failure
        async with joined(gateway.url(DIALECTS[dialect])) as client:
            await client.resume(asked, row.after_seq, **row.asked)
            code, close = await told(client, dialect)
        stock = dialect != "duplex"
        if row.code == RESYNC and stock:
            assert (code, close) == ("internal_error", 1011)
        else:
            expected_close = 1000 if row.close == 1011 and not stock else row.close
            assert (code, close) == (stock_code(row.code) if stock else row.code, expected_close)

        await owner.say("session.heartbeat")
        await owner.hear_type("session.heartbeat_ack")
        assert (await log.head("mine")).generation == 1
        if row.resumable:
            async with joined(gateway.url("autostart=0")) as client:
                await client.resume(created, SHOWN + 1)
                resumed = await client.hear_type("session.resumed")
                assert resumed["attachment_generation"] == 2


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_resume_that_passes_every_check_rotates_the_token_and_replays_from_the_position(
    log: RefusingLog, gateway: Gateway, dialect: str
) -> None:
    async with FakeWorker(log).working() as worker, joined(gateway.url()) as owner:
        created = await prepare(log, worker, owner, Row("", ""))
        async with joined(gateway.url(DIALECTS[dialect])) as client:
            await client.resume(created, 4)
            welcome = await client.hear()
            assert welcome["type"] == ("session.resumed" if dialect == "duplex" else "session.created")
            fields = welcome if dialect == "duplex" else welcome["duplex"]
            assert fields["attachment_generation"] == 2
            assert fields["resume_token"] != created["resume_token"]
            words = [(await client.hear())["delta"] for _ in range(SHOWN - 4)]
            assert words == [f"word {number}" for number in range(3, 9)]


async def test_a_gap_says_where_it_ends(log: RefusingLog, gateway: Gateway) -> None:
    """E10: a position that was trimmed is told, with the first frame there is; the client can go on from there."""
    async with FakeWorker(log).working() as worker, joined(gateway.url()) as owner:
        created = await prepare(log, worker, owner, Row("", "", trimmed_below=7))
        async with joined(gateway.url("autostart=0")) as client:
            await client.resume(created, 3)
            gap = await client.hear_type(RESYNC)
            assert (gap["reason"], gap["first_available"]) == ("journal_gap", 7)
        async with joined(gateway.url("autostart=0")) as client:
            await client.resume(created, gap["first_available"] - 1)
            await client.hear_type("session.resumed")
            assert (await client.hear())["server_event_seq"] == 7


async def test_the_token_that_was_presented_counts_once_more_and_only_while_nobody_is_attached(
    log: RefusingLog, gateway: Gateway
) -> None:
    async with FakeWorker(log).working(), joined(gateway.url()) as owner:
        created = await owner.open(session_id="mine")
        async with joined(gateway.url("autostart=0")) as lost:
            await lost.resume(created, 1)
            await lost.hear_type("session.resumed")
            async with joined(gateway.url("autostart=0")) as client:
                await client.resume(created, 1)
                assert (await told(client, "duplex"))[0] == "invalid_resume_token", "somebody is attached"
            lost.socket.transport.abort()
        await until(lambda: not log._current["mine"].attached)
        async with joined(gateway.url("autostart=0")) as client:
            await client.resume(created, 1)
            resumed = await client.hear_type("session.resumed")
            await client.say("session.heartbeat")
            await client.hear_type("session.heartbeat_ack")
        async with joined(gateway.url("autostart=0")) as client:
            await client.resume(created, 1)
            assert (await told(client, "duplex"))[0] == "invalid_resume_token", "it was used up"
        async with joined(gateway.url("autostart=0")) as client:
            await client.resume(resumed, 1)
            await client.hear_type("session.resumed")
