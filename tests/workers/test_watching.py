"""How soon, how evenly, how quickly silent: measured off the facts, on a clock that the test turns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from duplex_es.log.api import Claim, SessionRef
from duplex_es.observability.lines import SPOT
from duplex_es.observability.outlets import Outlets
from duplex_es.observability.prometheus import PrometheusMetrics
from duplex_es.observability.tracing import TraceContext
from duplex_es.session import events
from duplex_es.session.state import Item, Response, Session
from tests.support.spans import SeenTracer
from workers.watching import SessionWatch

pytestmark = pytest.mark.unit


@pytest.fixture(autouse=True)
def _elsewhere_as_before() -> Iterator[None]:
    yield
    SPOT.set(None)


class Watched:
    """A session whose facts come when the test says so."""

    def __init__(self, fence: int = 1) -> None:
        self.now_s = 100.0
        self.metrics, self.tracer = PrometheusMetrics("worker"), SeenTracer()
        claim = Claim(SessionRef("mine", 0), fence, "w1", "m")
        self.watch = SessionWatch(claim, Outlets(self.metrics, self.tracer), clock_s=lambda: self.now_s)
        self.watch.begins(lambda: 7)

    def at(self, now_s: float, *facts: events.Fact) -> None:
        """At this time, these are recorded."""
        self.now_s = 100.0 + now_s
        self.watch.decided(facts)

    def value(self, line: str) -> float:
        """The value behind ``line`` in the exposition."""
        found = [text for text in self.metrics.exposition().decode().splitlines() if text.startswith(line + " ")]
        return float(found[0].split()[-1]) if found else 0.0

    def total(self, metric: str, labels: str = 'model="m"') -> tuple[float, float]:
        """Count and sum of a histogram."""
        sums = self.value(f"duplex_worker_{metric}_sum{{{labels}}}")
        return self.value(f"duplex_worker_{metric}_count{{{labels}}}"), round(sums, 6)

    def span(self, name: str) -> Any:
        """The span of this name."""
        return next(span for span in self.tracer.spans if span.name == name)


def audio(response_id: str = "r1", ms: int = 100) -> events.AudioProduced:
    return events.AudioProduced(response_id=response_id, samples=24 * ms, rate_hz=24_000)


def heard(*, is_speech: bool = True) -> events.AudioAppended:
    return events.AudioAppended(samples=1600, rate_hz=16_000, is_speech=is_speech, overlaps=True)


def finished(status: str = "completed", **more: Any) -> events.ResponseFinished:
    return events.ResponseFinished(response_id="r1", status=status, epoch=1, **more)


def test_the_first_sound_is_timed_from_the_end_of_the_callers_turn() -> None:
    seen = Watched()
    seen.at(0, events.SpeechStarted(item_id="i1", start_ms=0))
    seen.at(2, events.InputCommitted(item_id="i1", turn_id=1, respond=True, audio_ms=2000))
    seen.at(2.1, events.ResponseStarted(response_id="r1", generate=True))
    seen.at(2.4, audio())
    seen.at(2.5, audio())
    seen.at(3, finished(input_tokens=5, output_tokens=9))
    assert seen.total("first_audio_seconds") == (1, 0.4)
    assert seen.value('duplex_worker_answers_total{model="m",status="completed"}') == 1
    assert seen.value('duplex_worker_audio_seconds_total{direction="out",model="m"}') == pytest.approx(0.2)
    assert seen.span("duplex.turn").attributes["duplex.turn.audio_ms"] == 2000
    answer = seen.span("chat m")
    assert answer.attributes["gen_ai.response.time_to_first_chunk"] == pytest.approx(0.4)
    assert answer.attributes["gen_ai.response.finish_reasons"] == ("completed",)
    assert (answer.attributes["gen_ai.usage.input_tokens"], answer.attributes["gen_ai.usage.output_tokens"]) == (5, 9)
    assert answer.attributes["gen_ai.conversation.id"] == "mine" and answer.ended and not answer.error


def test_an_answer_that_a_client_asks_for_is_timed_from_there() -> None:
    seen = Watched()
    seen.at(0, events.ResponseStarted(response_id="r1", generate=True))
    seen.at(0.7, audio())
    assert seen.total("first_audio_seconds") == (1, 0.7)


def test_a_model_that_speaks_unasked_is_late_for_nobody() -> None:
    seen = Watched()
    seen.at(0, events.ResponseStarted(response_id="r1", turn=3), audio())
    assert seen.total("first_audio_seconds") == (0, 0)


def test_pieces_of_sound_are_timed_and_those_that_come_too_late_counted() -> None:
    seen = Watched()
    for at in (0, 0.05, 0.1, 0.5):
        seen.at(at, audio())
    assert seen.total("chunk_interval_seconds") == (3, 0.5)
    assert seen.value('duplex_worker_underruns_total{model="m"}') == 1
    seen.at(0.9, audio("r2"))
    assert seen.total("chunk_interval_seconds")[0] == 3


def test_an_interruption_is_timed_from_the_first_speech_over_the_answer() -> None:
    seen = Watched()
    seen.at(0, events.ResponseStarted(response_id="r1", turn=1))
    seen.at(1, heard())
    seen.at(1.1, heard(is_speech=False))
    seen.at(2, heard())
    seen.at(2.4, heard(), finished("cancelled", reason="barge_in"))
    assert seen.total("barge_in_seconds") == (1, 0.4)
    assert seen.span("chat m").events == ["duplex.barge_in"]


def test_what_a_hang_up_cuts_is_no_interruption() -> None:
    seen = Watched()
    seen.at(0, events.ResponseStarted(response_id="r1", turn=1))
    seen.at(1, heard())
    seen.at(2, finished("cancelled", reason="session_close"), events.SessionClosed(reason="session_close"))
    seen.watch.ended()
    assert seen.total("barge_in_seconds") == (0, 0)
    assert seen.value('duplex_worker_sessions_ended_total{how="closed",model="m"}') == 1


def test_a_failed_answer_is_an_error_of_its_span() -> None:
    seen = Watched()
    seen.at(0, events.ResponseStarted(response_id="r1", turn=1))
    seen.at(1, finished("failed", reason="worker_lost"))
    assert seen.span("chat m").error == "worker_lost"


def test_a_function_call_lasts_until_its_output() -> None:
    seen = Watched()
    seen.at(0, events.FunctionCalled(response_id="r1", item_id="i", call_id="c1", name="look_up", arguments="{}"))
    call = seen.span("execute_tool look_up")
    assert not call.ended and call.attributes["gen_ai.tool.call.id"] == "c1"
    seen.at(1, events.ItemCreated(item=Item(id="o", type="function_call_output", call_id="c1", output="secret")))
    assert call.ended and "secret" not in str(call)
    assert seen.value('duplex_worker_tool_calls_total{model="m"}') == 1


def test_a_session_that_is_taken_over_says_from_whom_and_how_long_it_took() -> None:
    seen = Watched(fence=2)
    seen.now_s += 0.3
    origin = TraceContext.new()
    seen.watch.joins(origin)
    open_answer = Response(id="r1", item_id="i", turn_id=1)
    seen.watch.takes(Session(state="open", response=open_answer), handed_over=False)
    seen.watch.serves()
    assert seen.total("takeover_seconds") == (1, 0.3)
    assert seen.value('duplex_worker_claims_total{kind="lost",model="m"}') == 1
    assert seen.span("duplex.takeover").parent == origin
    seen.at(1, events.AnswerContinued(turn=1, response_id="r1"))
    assert seen.span("chat m").attributes["duplex.response.continued"] is True
    assert seen.value('duplex_worker_answers_continued_total{model="m"}') == 1


@pytest.mark.parametrize(
    ("state", "handed_over", "kind"), [("new", False, "new"), ("open", True, "handed_over"), ("open", False, "lost")]
)
def test_a_claim_is_counted_by_its_kind(state: str, handed_over: bool, kind: str) -> None:
    seen = Watched()
    seen.watch.takes(Session(state=state), handed_over=handed_over)
    assert seen.value(f'duplex_worker_claims_total{{kind="{kind}",model="m"}}') == 1


def test_sound_that_was_never_heard_and_the_rest() -> None:
    seen = Watched()
    seen.at(0, events.InputSkipped(duration_ms=250))
    seen.watch.opened_model(0.5)
    seen.watch.heard(0)
    seen.watch.turned(seen.watch.now_s())
    seen.watch.leaves("fenced")
    seen.watch.leaves("failed")
    seen.watch.ended()
    assert seen.value('duplex_worker_dropped_audio_seconds_total{model="m"}') == 0.25
    assert seen.total("model_open_seconds") == (1, 0.5)
    assert seen.total("input_delay_seconds")[0] == seen.total("turn_seconds")[0] == 1
    assert seen.value('duplex_worker_sessions_ended_total{how="fenced",model="m"}') == 1
