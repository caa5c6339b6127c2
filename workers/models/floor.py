"""The right to speak: numbers a session's answers, fences them by epoch, paces their audio and cuts them at once.

Every model of this package signals through one ``Floor`` per session, and so keeps the contract's promises in one
place: an answer is one well-formed sequence, nothing older than the newest epoch leaves, nothing leaves after the end.
Must be used on the event loop's thread only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from duplex_es.model import (
    ContinueAnswer,
    Emit,
    ModelCalledFunction,
    ModelFailed,
    ModelFinished,
    ModelInterrupted,
    ModelListened,
    ModelMeasured,
    ModelProducedAudio,
    ModelProducedText,
    ModelSpoke,
    Recipe,
    Signal,
    StageMetrics,
)

DEFAULT_LEAD_MS = 600


class AnswerCut(Exception):
    """The answer was interrupted or the session closed; whoever was giving it stops."""


class Floor:
    """One session's voice towards the core."""

    def __init__(
        self, emit: Emit, *, output_rate_hz: int, lead_ms: int | None, now_s: Callable[[], float] | None = None
    ) -> None:
        """``lead_ms`` is how far audio may run ahead of its own playing time; ``None`` means as fast as it is made."""
        self._emit = emit
        self._now_s = now_s or asyncio.get_running_loop().time
        self._lead_ms = lead_ms
        self._output_rate_hz = output_rate_hz
        self._turns = 0
        self._closed = False
        self._played_until_s = 0.0
        self.epoch = 0
        self.answer: Answer | None = None

    @property
    def is_heard(self) -> bool:
        """True while an answer is open, or while its last audio, sent ahead, is still being played."""
        return self.answer is not None or self._now_s() < self._played_until_s

    def adopt(self, epoch: int) -> None:
        """Take the epoch of a request; it never goes down. An answer of an older epoch is cut, silently."""
        self.epoch = max(self.epoch, epoch)
        if self.answer is not None and self.answer.epoch < self.epoch:
            self.answer = None

    def report(self, signal: Signal) -> None:
        """Emit a signal that belongs to no answer; says nothing once the session is closed."""
        if not self._closed:
            self._emit(signal)

    def begin(
        self, response_id: str | None = None, *, recipe: Recipe | None = None, again: ContinueAnswer | None = None
    ) -> Answer:
        """Start the next answer. ``recipe`` is how it can be given once more, ``again`` the request to do so.

        Raises: AnswerCut when the session is closed; RuntimeError when one is still open.
        """
        if self._closed:
            raise AnswerCut
        if self.answer is not None:
            raise RuntimeError("the previous answer is still open")
        if again is not None:
            self._turns, response_id, recipe = again.turn, again.response_id, again.recipe
        self.answer = Answer(
            self,
            self._turns,
            response_id,
            rate_hz=self._output_rate_hz,
            lead_ms=self._lead_ms,
            now_s=self._now_s,
            again=again,
        )
        self._turns += 1
        self.report(ModelSpoke(epoch=self.epoch, turn=self.answer.turn, response_id=response_id, recipe=recipe))
        return self.answer

    def listen(self, reason: str, response_id: str | None = None) -> None:
        """Say that no answer is given now."""
        self.report(ModelListened(epoch=self.epoch, reason=reason, response_id=response_id))

    def call(self, call_id: str | None, name: str | None, arguments: str) -> None:
        """Ask the client to run a tool, inside the open answer or, when there is none, as a turn of its own."""
        if self.answer is None:
            turn, self._turns = self._turns, self._turns + 1
        else:
            turn = self.answer.turn
        self.report(ModelCalledFunction(epoch=self.epoch, turn=turn, call_id=call_id, name=name, arguments=arguments))

    def stop(self, epoch: int) -> Answer | None:
        """Obey an interruption: silently end an answer older than ``epoch`` and adopt it. Returns what was cut."""
        before = self.answer
        if epoch > self.epoch:
            self._played_until_s = 0.0
        self.adopt(epoch)
        return before if before is not self.answer else None

    def interrupt(self, reason: str) -> Answer | None:
        """Cut the own answer because the caller speaks. The session advances its epoch by one for this, so do we."""
        cut = self.answer
        if cut is not None:
            self.answer = None
            self.report(ModelInterrupted(epoch=cut.epoch, turn=cut.turn, reason=reason))
            self.adopt(cut.epoch + 1)
        return cut

    def close(self) -> None:
        """The session is over: from here on nothing is emitted."""
        self._closed = True
        self.answer = None


class Answer:
    """One answer being given: ``ModelSpoke`` is out, one of finish / fail / cut is still to come.

    Every method raises ``AnswerCut`` once the answer no longer holds the floor.
    """

    def __init__(
        self,
        floor: Floor,
        turn: int,
        response_id: str | None,
        *,
        rate_hz: int,
        lead_ms: int | None,
        now_s: Callable[[], float],
        again: ContinueAnswer | None = None,
    ) -> None:
        self._floor = floor
        self._again = again
        self.turn = turn
        self.epoch = floor.epoch
        self.response_id = response_id
        self.text = ""
        self._rate_hz = rate_hz
        self._lead_ms = lead_ms
        self._now_s = now_s
        self._samples = 0
        self._began_s: float | None = None

    @property
    def samples(self) -> int:
        """Samples emitted so far."""
        return self._samples

    @property
    def is_catching_up(self) -> bool:
        """True while all that was emitted is what the caller had before the worker changed."""
        again = self._again
        return again is not None and (self._samples < again.said_samples or len(self.text) < again.said_chars)

    @property
    def falls_short(self) -> bool:
        """True when it would end before what the caller has had of it: then it is another answer."""
        return self._again is not None and self._samples < self._again.said_samples

    async def say(self, pcm: bytes, text: str = "", *, paced: bool = True, rate_hz: int | None = None) -> None:
        """Emit the next piece of audio (int16) with the words that begin in it, not before its time has come.

        ``rate_hz`` is for models whose answers differ in it; it stays the same within an answer.
        """
        self._rate_hz = rate_hz or self._rate_hz
        if paced:
            await self._wait_for_room(len(pcm) // 2)
        self.produce(pcm, text, rate_hz=rate_hz)

    def produce(self, pcm: bytes, text: str = "", *, rate_hz: int | None = None) -> None:
        """Emit a piece of audio at once, as ``say`` does in its time: for models that have a pace of their own."""
        self._hold()
        self._samples += len(pcm) // 2
        self.text += text
        self._floor.report(ModelProducedAudio(epoch=self.epoch, turn=self.turn, pcm=pcm, text=text, rate_hz=rate_hz))

    def write(self, text: str) -> None:
        """Emit the next piece of a text-only answer."""
        self._hold()
        self.text += text
        self._floor.report(ModelProducedText(epoch=self.epoch, turn=self.turn, text=text))

    def call(self, call_id: str | None, name: str | None, arguments: str) -> None:
        """Ask the client to run a tool; ``arguments`` is a JSON text."""
        self._hold()
        self._floor.call(call_id, name, arguments)

    def measure(self, stages: Mapping[str, StageMetrics]) -> None:
        """Tell what the stages of the model did for this answer since this was told last."""
        self._hold()
        self._floor.report(ModelMeasured(epoch=self.epoch, turn=self.turn, stages=dict(stages)))

    def finish(
        self, *, input_tokens: int | None = None, output_tokens: int | None = None, cached_tokens: int | None = None
    ) -> None:
        """The answer is complete."""
        self._hold()
        self._floor.answer = None
        self._floor._played_until_s = self._plays_until_s()
        self._floor.report(
            ModelFinished(
                epoch=self.epoch,
                turn=self.turn,
                input_tokens=input_tokens,
                output_tokens=output_tokens,
                cached_tokens=cached_tokens,
            )
        )

    def fail(self, code: str, message: str, *, fatal: bool = False) -> None:
        """The answer cannot go on."""
        self._hold()
        self._floor.answer = None
        self._floor.report(ModelFailed(epoch=self.epoch, code=code, message=message, fatal=fatal))

    @property
    def is_open(self) -> bool:
        """True while this answer holds the floor."""
        return self._floor.answer is self

    def _plays_until_s(self) -> float:
        if self._began_s is None or self._lead_ms is None:
            return 0.0
        return self._began_s + self._samples / self._rate_hz

    def _said_s(self) -> float:
        """How much of it the caller has had from another worker."""
        return 0.0 if self._again is None else self._again.said_samples / self._rate_hz

    def _ahead_s(self) -> float:
        """How much of that may still be waiting to be played: the lead, less the time that has passed."""
        if self._again is None or self._lead_ms is None:
            return 0.0
        lead_ms = min(self._lead_ms, self._said_s() * 1000)
        return max(0.0, lead_ms - self._again.idle_ms) / 1000

    def _hold(self) -> None:
        if not self.is_open:
            raise AnswerCut

    async def _wait_for_room(self, samples: int) -> None:
        """Return when playing ``samples`` more would keep the lead within bounds; playback begins with the first."""
        now = self._now_s()
        if self._again is not None and self._samples + samples <= self._again.said_samples:
            return
        if self._began_s is None:
            self._began_s = now - self._said_s() + self._ahead_s()
        # After a stall the listener ran dry: its clock starts again where the audio stopped.
        self._began_s = max(self._began_s, now - self._samples / self._rate_hz)
        if self._lead_ms is None:
            return
        due_s = self._began_s + (self._samples + samples) / self._rate_hz - self._lead_ms / 1000
        if due_s > now and self._samples:
            await asyncio.sleep(due_s - now)
