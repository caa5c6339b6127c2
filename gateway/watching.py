"""What operators see of one socket: its figures, its place in a trace, and its session's name in log lines.

Everything a socket goes through is told here once, in the words of the gateway; what becomes of it is decided here.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from duplex_es.log.api import Attachment
from duplex_es.observability import catalogue
from duplex_es.observability.lines import SPOT, Spot
from duplex_es.observability.outlets import NOWHERE, Outlets
from duplex_es.observability.tracing import TraceContext
from duplex_es.protocol import Error, ProtocolError

OPEN, RESUME = "open", "resume"
_OUTCOMES = {OPEN: catalogue.OPENINGS, RESUME: catalogue.RESUMES}
_DONE = {OPEN: "opened", RESUME: "resumed"}


class SocketWatch:
    """One socket, from its upgrade to its close. ``traceparent`` is that of the upgrade request, if it had one."""

    def __init__(self, outlets: Outlets = NOWHERE, traceparent: str | None = None) -> None:
        self._metrics, self._tracer = outlets.metrics, outlets.tracer
        self._upgrade = TraceContext.read(traceparent)
        self._began_s = time.time()
        self._kind = ""
        self._model = ""
        self._wished_s = 0.0
        self._settled = self._caught_up = True
        self._replayed = 0
        self._span = self._tracer.start("duplex.socket", self._upgrade, serves=True)
        self._resume_span = self._span
        self._metrics.count(catalogue.ACCEPTED)

    # -- the wish --------------------------------------------------------------------------------------------------

    def wishes(self, kind: str) -> None:
        """The client wants a session: ``OPEN`` or ``RESUME``."""
        self._kind, self._wished_s, self._settled = kind, time.monotonic(), False

    def admitted(self) -> None:
        """It passed the gate."""
        self._metrics.observe(catalogue.ADMISSION_WAIT, time.monotonic() - self._wished_s, self._kind)

    @property
    def needs_origin(self) -> bool:
        """Whether the trace of the session it resumes is to be looked up: the request named none."""
        return self._upgrade is None

    def joins(self, origin: TraceContext | None) -> None:
        """The session it resumes belongs to this trace: so does what is left of this socket."""
        if origin is not None:
            self._span = self._tracer.start("duplex.socket", origin, serves=True, at_s=self._began_s)
        self._resume_span = self._tracer.start("duplex.resume", self._span.context)

    @property
    def traceparent(self) -> str:
        """What an attachment's record says of the trace."""
        return str(self._span.context)

    def holds(self, attachment: Attachment, model: str, dialect: str, seq: Callable[[], int]) -> None:
        """The socket holds a session; ``seq`` says how far its client has been told."""
        ref = attachment.ref
        self._model, self._caught_up = model, False
        SPOT.set(Spot(ref.session_id, ref.incarnation, self._span.context.trace_id, seq))
        self._span.put(
            {
                "gen_ai.conversation.id": ref.session_id,
                "gen_ai.request.model": model,
                "duplex.dialect": dialect,
                "duplex.gateway": attachment.gateway,
                "duplex.attachment_generation": attachment.generation,
            }
        )

    def welcomed(self) -> None:
        """The client was told that it holds its session."""
        self._settle(_DONE[self._kind])
        if self._kind == OPEN:
            self._metrics.observe(catalogue.OPENING, time.monotonic() - self._wished_s, self._model)

    def replays(self) -> None:
        """A session that is over is read to its end."""
        self._settle("replayed")

    def _settle(self, outcome: str) -> None:
        """What became of the wish; the first word counts."""
        if not self._settled:
            self._settled = True
            self._metrics.count(_OUTCOMES[self._kind], outcome)
            self._span.put({f"duplex.{self._kind}.outcome": outcome})

    # -- the traffic -----------------------------------------------------------------------------------------------

    def received(self, size: int) -> None:
        """A client event of ``size`` characters."""
        self._metrics.count(catalogue.RECEIVED)
        self._metrics.count(catalogue.RECEIVED_BYTES, by=size)

    def sent(self, size: int) -> None:
        """A server event of ``size`` characters left."""
        self._metrics.count(catalogue.SENT)
        self._metrics.count(catalogue.SENT_BYTES, by=size)

    def told(self, told: object) -> None:
        """Something was said to the client; errors are counted."""
        if (code := error_code(told)) is not None:
            self._metrics.count(catalogue.ERRORS, code)
            self._span.event("duplex.error", {"duplex.error.code": code})

    def passed_on(self, at_ms: int, *, missed: bool) -> None:
        """A frame that was decided at ``at_ms`` has left. ``missed``: it was there before this socket was."""
        if missed:
            self._replayed += 1
            self._metrics.count(catalogue.REPLAYED)
        else:
            self._metrics.observe(catalogue.SEND_DELAY, time.time() - at_ms / 1000)

    def caught_up(self) -> None:
        """The client has all that was there before this socket."""
        if self._kind == RESUME and not self._caught_up:
            self._metrics.observe(catalogue.RESUME, time.monotonic() - self._wished_s)
            self._resume_span.put({"duplex.replayed_frames": self._replayed})
            self._resume_span.end()
        self._caught_up = True

    # -- the end ---------------------------------------------------------------------------------------------------

    def ended(self, code: int, cause: str, error: str | None) -> None:
        """The socket is closed with ``code`` because of ``cause``; ``error`` is the code its client was told last."""
        self._settle(error or cause)
        self._metrics.count(catalogue.CLOSED, str(code), cause)
        if cause == "session_replaced":
            self._metrics.count(catalogue.FENCED)
        self._span.put({"duplex.close.code": code, "duplex.close.cause": cause})
        failed = cause if code in (1011, 1013) else ""
        if self._resume_span is not self._span:
            self._resume_span.end(failed)
        self._span.end(failed)


def error_code(told: object) -> str | None:
    """The code of an error that a client is told, ``None`` for anything else."""
    if isinstance(told, ProtocolError):
        return told.code
    return told.error.code if isinstance(told, Error) else None
