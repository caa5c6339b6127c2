"""What operators see of one session: how soon it answers, how evenly it speaks, how fast it falls silent, its spans.

Everything is read off the facts that a session records, so a session that is served elsewhere is measured alike.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from duplex_es.log.api import Claim
from duplex_es.observability import catalogue
from duplex_es.observability.lines import SPOT, Spot
from duplex_es.observability.outlets import NOWHERE, Outlets
from duplex_es.observability.tracing import Attributes, Span, TraceContext
from duplex_es.session import events
from duplex_es.session.events import Fact
from duplex_es.session.state import Session

PROVIDER = "duplex_es"


class SessionWatch:
    """One session of one worker, from its claim to its end. ``clock_s`` is any monotonic clock."""

    def __init__(
        self, claim: Claim, outlets: Outlets = NOWHERE, *, clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._claim, self._model = claim, claim.model
        self._metrics, self._tracer = outlets.metrics, outlets.tracer
        self._clock_s = clock_s
        self._origin = TraceContext.new()
        self._seq: Callable[[], int] | None = None
        self._claimed_s, self._claimed_at_s = clock_s(), time.time()
        self._asked_s: float | None = None
        self._overlap_s: float | None = None
        self._speaking = ""
        self._spoke_s = self._played_until_s = 0.0
        self._open: set[str] = set()
        self._turn: Span | None = None
        self._answers: dict[str, Span] = {}
        self._tools: dict[str, Span] = {}
        self._how = ""
        self._is_takeover = False

    # -- its place -------------------------------------------------------------------------------------------------

    def begins(self, seq: Callable[[], int]) -> None:
        """Its task runs; ``seq`` says how far the session has come."""
        self._seq = seq
        self.joins(self._origin)

    def takes(self, session: Session, *, handed_over: bool) -> None:
        """It was read: a session that begins here, or another worker's that was ``handed_over`` or lost."""
        self._is_takeover = session.state != "new"
        kind = "new" if not self._is_takeover else "handed_over" if handed_over else "lost"
        self._metrics.count(catalogue.CLAIMS, self._model, kind)
        if session.response is not None:
            self._answer(session.response.id).put({"duplex.response.continued": True})

    def joins(self, origin: TraceContext | None) -> None:
        """The socket that holds the session now belongs to this trace; ``None``: what was known before holds."""
        if origin is not None:
            self._origin = origin
        ref = self._claim.ref
        SPOT.set(Spot(ref.session_id, ref.incarnation, self._origin.trace_id, self._seq))

    def serves(self) -> None:
        """What another worker left is taken up, and the model is open."""
        if self._is_takeover:
            self._metrics.observe(catalogue.TAKEOVER, self._clock_s() - self._claimed_s, self._model)
            where: Attributes = {"duplex.worker": self._claim.worker, "duplex.claim": self._claim.fence}
            self._span("duplex.takeover", where, at_s=self._claimed_at_s).end()

    def opened_model(self, seconds: float) -> None:
        """The model took this long to open."""
        self._metrics.observe(catalogue.MODEL_OPEN, seconds, self._model)

    def heard(self, at_ms: int) -> None:
        """A client's event came that its gateway read at ``at_ms``, Unix time."""
        self._metrics.observe(catalogue.INPUT_DELAY, time.time() - at_ms / 1000, self._model)

    def turned(self, began_s: float) -> None:
        """A turn of the session is done that began then on its clock."""
        self._metrics.observe(catalogue.DECISION, self._clock_s() - began_s, self._model)

    def now_s(self) -> float:
        """The time on its clock."""
        return self._clock_s()

    def leaves(self, how: str) -> None:
        """The session leaves this worker; the first word counts."""
        self._how = self._how or how

    def ended(self) -> None:
        """Its task is over."""
        self._metrics.count(catalogue.ENDED, self._model, self._how or "cut")
        for span in (*self._answers.values(), *self._tools.values(), *filter(None, [self._turn])):
            span.end()

    # -- what it decides -------------------------------------------------------------------------------------------

    def decided(self, facts: Sequence[Fact]) -> None:
        """These were recorded, in this order, now."""
        if any(isinstance(fact, events.SessionClosed | events.SessionExpired) for fact in facts):
            self.leaves("closed")
            self._overlap_s = None  # What is cut now is not cut by the caller's voice.
        for fact in facts:
            if (note := _NOTES.get(type(fact))) is not None:
                note(self, fact)

    def _appended(self, fact: events.AudioAppended) -> None:
        self._metrics.count(catalogue.AUDIO, self._model, "in", by=fact.samples / fact.rate_hz)
        if fact.overlaps and self._open:
            if not fact.is_speech:
                self._overlap_s = None
            elif self._overlap_s is None:
                self._overlap_s = self._clock_s()

    def _speech_started(self, fact: events.SpeechStarted) -> None:
        if self._open and self._overlap_s is None:
            self._overlap_s = self._clock_s()
        if self._turn is not None:
            self._turn.end()
        self._turn = self._span("duplex.turn", {"duplex.item.id": fact.item_id})

    def _committed(self, fact: events.InputCommitted) -> None:
        if fact.respond or fact.by_model:
            self._asked_s = self._clock_s()
        turn, self._turn = self._turn or self._span("duplex.turn", {"duplex.item.id": fact.item_id}), None
        turn.put({"duplex.turn.audio_ms": fact.audio_ms or 0, "duplex.turn.by_model": fact.by_model})
        turn.end()

    def _started(self, fact: events.ResponseStarted) -> None:
        if self._asked_s is None and fact.turn is None:
            self._asked_s = self._clock_s()  # Announced before the model speaks: somebody waits for it.
        self._answer(fact.response_id).put({"gen_ai.output.type": "speech" if "audio" in fact.modalities else "text"})

    def _produced(self, fact: events.AudioProduced) -> None:
        now_s, seconds = self._clock_s(), fact.samples / fact.rate_hz
        self._metrics.count(catalogue.AUDIO, self._model, "out", by=seconds)
        if fact.response_id == self._speaking:
            self._metrics.observe(catalogue.CHUNK_INTERVAL, now_s - self._spoke_s, self._model)
            if now_s > self._played_until_s:
                self._metrics.count(catalogue.UNDERRUNS, self._model)
        else:
            self._speaking, self._played_until_s = fact.response_id, now_s
            self._first_sound(fact.response_id, now_s)
        self._spoke_s, self._played_until_s = now_s, max(self._played_until_s, now_s) + seconds

    def _first_sound(self, response_id: str, now_s: float) -> None:
        if self._asked_s is None:
            return
        waited_s, self._asked_s = now_s - self._asked_s, None
        self._metrics.observe(catalogue.FIRST_AUDIO, waited_s, self._model)
        if response_id in self._answers:
            self._answers[response_id].put({"gen_ai.response.time_to_first_chunk": waited_s})

    def _finished(self, fact: events.ResponseFinished) -> None:
        self._metrics.count(catalogue.ANSWERS, self._model, fact.status)
        self._open.discard(fact.response_id)
        answer = self._answers.pop(fact.response_id, None)
        if answer is not None:
            usage = {"input_tokens": fact.input_tokens, "output_tokens": fact.output_tokens}
            answer.put({f"gen_ai.usage.{name}": count for name, count in usage.items() if count is not None})
            answer.put({"gen_ai.response.finish_reasons": (fact.reason or fact.status,)})
        if self._overlap_s is not None and fact.status == "cancelled":
            self._metrics.observe(catalogue.BARGE_IN, self._clock_s() - self._overlap_s, self._model)
            if answer is not None:
                answer.event("duplex.barge_in", {"duplex.barge_in.reaction_s": self._clock_s() - self._overlap_s})
        if answer is not None:
            answer.end((fact.reason or "failed") if fact.status == "failed" else "")
        self._overlap_s = self._asked_s = None

    def _continued(self, fact: events.AnswerContinued) -> None:
        self._metrics.count(catalogue.CONTINUED, self._model)

    def _called(self, fact: events.FunctionCalled) -> None:
        self._metrics.count(catalogue.TOOL_CALLS, self._model)
        self._tools[fact.call_id] = self._span(
            f"execute_tool {fact.name}",
            {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": fact.name,
                "gen_ai.tool.type": "function",
                "gen_ai.tool.call.id": fact.call_id,
            },
        )

    def _created(self, fact: events.ItemCreated) -> None:
        if fact.item.type == "function_call_output" and fact.item.call_id in self._tools:
            self._tools.pop(fact.item.call_id).end()

    def _skipped(self, fact: events.InputSkipped) -> None:
        self._metrics.count(catalogue.DROPPED, self._model, by=fact.duration_ms / 1000)

    # -- spans -----------------------------------------------------------------------------------------------------

    def _answer(self, response_id: str) -> Span:
        self._open.add(response_id)
        if response_id not in self._answers:
            self._answers[response_id] = self._span(
                f"chat {self._model}",
                {
                    "gen_ai.operation.name": "chat",
                    "gen_ai.provider.name": PROVIDER,
                    "gen_ai.response.id": response_id,
                },
            )
        return self._answers[response_id]

    def _span(self, name: str, attributes: Attributes, at_s: float | None = None) -> Span:
        about = {"gen_ai.conversation.id": self._claim.ref.session_id, "gen_ai.request.model": self._model}
        return self._tracer.start(name, self._origin, {**about, **attributes}, at_s=at_s)


_NOTES: dict[type[Fact], Callable[..., None]] = {
    events.AudioAppended: SessionWatch._appended,
    events.SpeechStarted: SessionWatch._speech_started,
    events.InputCommitted: SessionWatch._committed,
    events.ResponseStarted: SessionWatch._started,
    events.AudioProduced: SessionWatch._produced,
    events.ResponseFinished: SessionWatch._finished,
    events.AnswerContinued: SessionWatch._continued,
    events.FunctionCalled: SessionWatch._called,
    events.ItemCreated: SessionWatch._created,
    events.InputSkipped: SessionWatch._skipped,
}
