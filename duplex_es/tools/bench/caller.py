"""One caller: asks, waits, acknowledges what it heard, pauses, asks again, until its time is over."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable

from ...client import (
    AudioDelta,
    AudioFormat,
    DuplexClient,
    DuplexClientError,
    DuplexConnectionError,
    DuplexEvent,
    DuplexProtocolError,
    ErrorEvent,
    ReconnectPolicy,
    ResponseCreated,
    ResponseDone,
    SessionConfig,
    SessionEnded,
    TextDelta,
    TranscriptDelta,
)
from ...client.timing import found_in
from .plan import BenchPlan
from .takes import AnswerTake, Chunk, SessionTake
from .wire import CutConnector

Clock = Callable[[], float]
HEARTBEAT, HEARTBEAT_ACK = "session.heartbeat", "session.heartbeat_ack"


class Caller:
    """Caller ``number`` of ``plan``. ``take`` fills while it runs; read it at any time, run it once."""

    def __init__(self, plan: BenchPlan, number: int) -> None:
        self.take = SessionTake(number)
        self._plan = plan
        self._clock: Clock = lambda: 0.0
        self._asked_at_s = 0.0
        self._answered = asyncio.Event()
        self._answers: dict[str, AnswerTake] = {}
        self._cut_at_s: float | None = None
        self._pulse_sent_at_s: float | None = None
        self._wire = CutConnector(self.take)

    async def run(self, until_s: float) -> None:
        """Call until ``until_s`` of the event loop's clock; an answer that is being given then is heard to its end.

        What goes wrong is noted in ``take``, never raised.
        """
        self._clock = asyncio.get_running_loop().time
        began_s = self._clock()
        try:
            async with self._client() as client:
                self.take.opening_ms = (self._clock() - began_s) * 1000
                self.take.session_id = client.session_id or ""
                await self._call(client, until_s)
        except DuplexProtocolError as error:
            self._fails(error.code or "protocol_error")
        except DuplexConnectionError:
            self._fails("connection_failed")
        except DuplexClientError:
            self._fails("session_ended")

    def _client(self) -> DuplexClient:
        plan = self._plan
        config = SessionConfig(
            input_audio=AudioFormat("pcm16", plan.question.sample_rate_hz),
            turn_detection=None if plan.commits or plan.continuous else {"type": "server_vad"},
            extra_body={"return_stage_metrics": True, **plan.extra_body},
        )
        # Callers spread over the gateways, as a load balancer would do it.
        first = self.take.number % len(plan.urls)
        urls = [*plan.urls[first:], *plan.urls[:first]]
        return DuplexClient(
            urls,
            model=plan.model,
            config=config,
            reconnect=ReconnectPolicy(),
            heartbeat_interval_s=None,
            connect=self._wire.connect,
        )

    def _fails(self, code: str) -> None:
        self.take.error = self.take.error or code

    async def _call(self, client: DuplexClient, until_s: float) -> None:
        listening = asyncio.create_task(self._listen(client))
        pulsing = asyncio.create_task(self._pulse(client))
        try:
            if self._plan.continuous:
                await self._talk_on(client, listening, until_s)
            while self._clock() < until_s and not listening.done():
                await self._exchange(client, listening)
        finally:
            pulsing.cancel()
            await asyncio.wait([pulsing])
            listening.cancel()
            await asyncio.wait([listening])

    # -- saying ----------------------------------------------------------------------------------------------------

    async def _exchange(self, client: DuplexClient, listening: asyncio.Task[None]) -> None:
        plan = self._plan
        self._answered.clear()
        # A voice may be answered before its commit is out; until then this is the best that is known.
        self._asked_at_s = self._clock() + plan.question.speech_end_ms() / 1000
        await client.stream_pcm(plan.question.pcm, chunk_ms=plan.chunk_ms)
        if plan.commits:
            self._asked_at_s, wall_ms = self._clock(), time.time() * 1000
            event_id = await client.send({"type": "input_audio_buffer.commit", "final": True})
            self.take.committed_unix_ms[event_id] = wall_ms
        line = asyncio.create_task(self._keep_line(client)) if not plan.commits else None
        answered = asyncio.create_task(self._answered.wait())
        try:
            done, _ = await asyncio.wait(
                (answered, listening), timeout=plan.answer_timeout_s, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            for task in (answered, line):
                if task is not None:
                    task.cancel()
                    await asyncio.wait([task])
        if answered not in done:
            self.take.unanswered += 1
            return
        last = self.take.answers[-1]
        await client.ack_playback(last.audio_duration_ms, response_id=last.response_id)
        await asyncio.sleep(plan.pause_ms / 1000)

    async def _talk_on(self, client: DuplexClient, listening: asyncio.Task[None], until_s: float) -> None:
        """Speak and pause until it is over, whatever is heard meanwhile; what was being said then counts as it is."""
        self._asked_at_s = self._clock()
        talking = asyncio.create_task(self._keep_talking(client))
        try:
            patience_s = max(0.0, until_s - self._clock())
            await asyncio.wait((talking, listening), timeout=patience_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            talking.cancel()
            await asyncio.wait([talking])
        self.take.answers += self._answers.values()
        self.take.unanswered += not self.take.answers
        self._answers.clear()

    async def _keep_talking(self, client: DuplexClient) -> None:
        question, pause = self._plan.question, self._plan.question.silence(self._plan.pause_ms)
        with contextlib.suppress(DuplexClientError):
            while True:
                await client.stream_pcm(question.pcm + pause, chunk_ms=self._plan.chunk_ms)
                for answer in self._answers.values():
                    await client.ack_playback(answer.audio_duration_ms, response_id=answer.response_id)

    async def _keep_line(self, client: DuplexClient) -> None:
        """A line on which nobody speaks still carries sound: that is how a server hears that a turn is over."""
        with contextlib.suppress(DuplexClientError):
            while True:
                await client.stream_pcm(self._plan.question.silence(1_000), chunk_ms=self._plan.chunk_ms)

    async def _pulse(self, client: DuplexClient) -> None:
        """Time the whole way through the service and back, without a model in it."""
        with contextlib.suppress(DuplexClientError):
            while True:
                await asyncio.sleep(self._plan.pulse_s)
                if self._pulse_sent_at_s is None:
                    self._pulse_sent_at_s = self._clock()
                    await client.send({"type": HEARTBEAT})

    # -- hearing ---------------------------------------------------------------------------------------------------

    async def _listen(self, client: DuplexClient) -> None:
        with contextlib.suppress(DuplexClientError):
            async for event in client.events():
                await self._take_in(event)

    async def _take_in(self, event: DuplexEvent) -> None:
        now_s = self._clock()
        self.take.received_events += 1
        match event:
            case ResponseCreated() if event.response_id:
                answer = AnswerTake(event.response_id, self._asked_at_s, now_s)
                self._answers[event.response_id] = answer
            case ErrorEvent():
                self.take.refusals.append(event.code or "error")
            case SessionEnded():
                if event.type != "session.closed":
                    self._fails(event.type)
            case _ if event.type == HEARTBEAT_ACK:
                if self._pulse_sent_at_s is not None:
                    self.take.round_trips_ms.append((now_s - self._pulse_sent_at_s) * 1000)
                    self._pulse_sent_at_s = None
            case _ if event.type == "connection.resumed" and self._cut_at_s is not None:
                self.take.resumes_ms.append((now_s - self._cut_at_s) * 1000)
                # A heartbeat that went down with the old connection has no answer.
                self._cut_at_s = self._pulse_sent_at_s = None
        if (known := self._answers.get(event.response_id or "")) is not None:
            await self._take_answer(known, event, now_s)

    async def _take_answer(self, answer: AnswerTake, event: DuplexEvent, now_s: float) -> None:
        answer.stages.update(found_in(event.raw, "stage_metrics"))
        match event:
            case AudioDelta():
                rate_hz = event.sample_rate_hz or 24_000
                if event.server_event_seq is not None and not answer.was_cut:
                    self.take.heard_unix_ms[event.server_event_seq] = time.time() * 1000
                answer.chunks.append(Chunk(now_s, len(event.audio) / (2 * rate_hz) * 1000))
                if len(answer.chunks) == 2 and self._is_to_be_cut():
                    answer.was_cut = True
                    self._cut_at_s = now_s
                    await self._wire.cut()
            case TranscriptDelta() | TextDelta():
                answer.first_text_at_s = answer.first_text_at_s or now_s
            case ResponseDone():
                answer.done_at_s, answer.status = now_s, event.status or "unknown"
                del self._answers[answer.response_id]
                self.take.answers.append(answer)
                self._answered.set()

    def _is_to_be_cut(self) -> bool:
        every = self._plan.cut_every
        return every > 0 and len(self.take.answers) % every == every - 1
