"""The end of a session that its worker cannot serve: the client is told, and nobody claims it again.

What a failed actor holds in memory is not trusted; the log is read anew.
"""

from __future__ import annotations

import contextlib
import logging

from duplex_es.log.api import Claim, Head, Record, SessionLog
from duplex_es.log.errors import Fenced, LogError, LogUnavailable, SessionUnknown
from duplex_es.protocol import Frame, RefuseCommand, frames
from duplex_es.protocol.records import OpeningAnswer, pack_opening
from duplex_es.session.events import SessionRefused
from duplex_es.session.inputs import ModelLost
from duplex_es.session.projection.realtime import error_frame
from duplex_es.session.step import step

from .journal import Journal, records
from .recovery import WrittenByAnotherBuild, recover

CODE = "internal_error"
MESSAGE = "The session failed and is over; open a new one."

_log = logging.getLogger(__name__)


async def end_with_error(
    log: SessionLog, claim: Claim, now_ms: int, *, words: bool = True, last_resort: bool = False
) -> None:
    """Close the claimed session as failed: an answer that was being given ends, then an error, then the closing frame.

    An opening that nobody answered yet is refused instead. With ``words=False`` nothing is appended, for a log that
    lost what clients were shown: no seq may be used twice. A log that another build wrote is left to a worker that can
    read it, unless there is none (``last_resort``). Raises no LogError: where the claim is lost or the log away, the
    session is its next owner's.
    """
    session_id = claim.ref.session_id
    try:
        head = await log.head(session_id)
        if head.ref != claim.ref or head.state == "closed":
            return
        if head.opening is None:
            await _refuse_opening(log, claim, head)
        elif words:
            await _append_words(log, claim, head, now_ms, last_resort=last_resort)
        await log.close(claim, CODE)
    except WrittenByAnotherBuild as error:
        _log.error("session=%s claim=%d given back, its log is another build's: %s", session_id, claim.fence, error)
        with contextlib.suppress(LogError):
            await log.release(claim)
    except (Fenced, SessionUnknown):
        _log.info("session=%s claim=%d lost before it could be ended", session_id, claim.fence)
    except LogError as error:
        _log.error("session=%s claim=%d could not be ended: %s", session_id, claim.fence, error)


async def _refuse_opening(log: SessionLog, claim: Claim, head: Head) -> None:
    journal = Journal(head.output.number, head.input, [SessionRefused(code=CODE, message=MESSAGE)])
    answer = OpeningAnswer(error=RefuseCommand(code=CODE, message=MESSAGE))
    await log.checkpoint(claim, journal.checkpoint(), opening=pack_opening(answer))


async def _append_words(log: SessionLog, claim: Claim, head: Head, now_ms: int, *, last_resort: bool) -> None:
    try:
        recovered = await recover(log, claim, head, now_ms)
        decision = step(recovered.session, ModelLost(code=CODE, message=MESSAGE), now_ms)
        journal = recovered.journal()
        said = [*recovered.unfinished, *journal.take_in([decision], recovered.consumed, now_ms)]
        first_seq = recovered.seq + 1
    except LogUnavailable:
        raise
    except Exception as error:
        if isinstance(error, WrittenByAnotherBuild) and not last_resort:
            raise
        # Not even the rules can read this log. The client still hears an end, and the seqs stay whole.
        _log.exception("session=%s seq=%d its log cannot be folded", claim.ref.session_id, head.output.number)
        said, first_seq = _bare_words(claim, head, now_ms), head.output.number + 1
    if said:
        await log.append_output(claim, first_seq, said)


def _bare_words(claim: Claim, head: Head, now_ms: int) -> list[Record]:
    """An error and the closing frame, with no facts behind them."""
    session_id = claim.ref.session_id
    event: dict[str, object] = {"type": "session.closed", "session_id": session_id, "reason": CODE}
    said: list[Frame] = [
        error_frame(CODE, MESSAGE, None, None),
        frames.SessionClosed(session_id=session_id, reason=CODE, event=event),
    ]
    return records((), said, head.input, now_ms)
