"""One caller of the cascade: listens all the time, also while it speaks.

Audio goes through the ears in the order it came; every turn is recognised in the order it ended; answers are given in
the order they were decided. An interruption overtakes all three.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from duplex_es.model import (
    CloseModel,
    ContinueAnswer,
    Emit,
    EndTurn,
    FeedAudio,
    Generate,
    Interrupt,
    ModelFailed,
    ModelHeardSpeech,
    ModelHeardSpeechEnd,
    ModelHeardTurn,
    OpenModel,
    ReconfigureModel,
    Request,
    ResetInput,
    ToolOutput,
)
from workers.vad.endpoint import Mark
from workers.vad.silero import FRAME_MS, VadState

from ..agenda import Agenda
from ..floor import Floor
from ..pcm import Floats, floats_of
from ..speech.asr import NOTHING, Heard
from ..speech.tts import RATE_HZ
from .acknowledgements import is_acknowledgement
from .hearing import OVERLAP_IGNORED_MS, Hearing, Turn
from .options import CascadeOptions
from .parts import Parts
from .settings import hearing_settings
from .speaking import Speaking

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Over:
    """A turn that is over since ``since_s`` and waits to be understood. ``item_id`` when the client committed it."""

    turn: Turn
    heard: asyncio.Task[Heard] | None
    epoch: int
    may_answer: bool
    since_s: float
    item_id: str | None = None


class CascadeSession:
    """Hears, understands and answers one caller."""

    def __init__(self, request: OpenModel, emit: Emit, parts: Parts, options: CascadeOptions) -> None:
        self._parts = parts
        self._options = options
        self._floor = Floor(emit, output_rate_hz=RATE_HZ, lead_ms=options.lead_ms)
        self._floor.adopt(request.epoch)
        name = f"cascade {request.session_id}"
        self._ears = Agenda(self._floor, f"{name}, hearing")
        self._thoughts = Agenda(self._floor, f"{name}, understanding")
        self._speaking = Speaking(self._floor, parts, name, request)
        self._auto = request.extra_body.get("auto_response", request.extra_body.get("full_duplex", True)) is not False
        self._vad = VadState()
        self._hearing = Hearing(hearing_settings(options, request.turn_detection, ends_turns=self._auto))
        self._guess: asyncio.Task[Heard] | None = None
        self._cuts_itself = request.overlap_policy == "barge_in_on_speech"
        self._was_forced = False
        self._recognising: set[asyncio.Task[Heard]] = set()

    async def perform(self, request: Request) -> None:
        """Carry out one request; never raises for what a caller said."""
        match request:
            case FeedAudio():
                self._floor.adopt(request.epoch)
                self._ears.add(0, functools.partial(self._hear, request))
            case EndTurn():
                self._floor.adopt(request.epoch)
                self._ears.add(0, functools.partial(self._commit, request))
            case ResetInput():
                self._floor.adopt(request.epoch)
                self._ears.add(0, self._forget)
            case Interrupt():
                self._floor.stop(request.epoch)
                self._hearing.forgive_overlap()
                self._speaking.interrupted(request.epoch, request.heard_text)
            case Generate():
                self._floor.adopt(request.epoch)
                self._ears.add(0, functools.partial(self._in_turn, functools.partial(self._speaking.generate, request)))
            case ContinueAnswer():
                self._floor.adopt(request.epoch)
                self._speaking.again(request)
            case ToolOutput():
                self._floor.adopt(request.epoch)
                tell = functools.partial(self._speaking.tool_output, request, aloud=self._auto and request.respond)
                self._ears.add(0, functools.partial(self._in_turn, tell))
            case ReconfigureModel():
                self._ears.add(0, functools.partial(self._reconfigure, request))
            case CloseModel():
                await self._close()

    async def _close(self) -> None:
        self._floor.close()
        for task in self._recognising:
            task.cancel()
        for agenda in (self._ears, self._thoughts):
            await agenda.close()
        await self._speaking.close()

    async def _reconfigure(self, request: ReconfigureModel) -> None:
        settings = hearing_settings(self._options, request.turn_detection, ends_turns=self._auto)
        self._hearing.settings = settings
        self._cuts_itself = request.overlap_policy == "barge_in_on_speech"
        self._speaking.configure(request)

    async def _in_turn(self, work: Callable[[], None]) -> None:
        """Put work behind every turn that has been heard so far."""

        async def do() -> None:
            work()

        self._thoughts.add(0, do)

    async def _forget(self) -> None:
        self._drop_guess()
        self._hearing.reset()
        self._vad.reset()

    async def _hear(self, request: FeedAudio) -> None:
        self._obey(request.force_listen)
        frames = self._hearing.take(floats_of(request.pcm), request.end_ms)
        try:
            found = await self._parts.speech_in(self._vad, frames)
        except Exception as error:
            log.exception("the voice activity detector failed")
            self._floor.report(
                ModelFailed(epoch=self._floor.epoch, code="server_vad_inference_failed", message=str(error), fatal=True)
            )
            return
        end_ms = self._hearing.now_ms - len(frames) * FRAME_MS
        for frame, probability in zip(frames, found, strict=True):
            end_ms += FRAME_MS
            probability = 0.0 if request.is_speech is False else probability
            speaks = self._floor.is_heard
            mark = self._hearing.judge(frame, probability, max(0, end_ms), assistant_speaks=speaks)
            self._act_on(mark, max(0, end_ms))

    def _obey(self, force_listen: bool) -> None:
        """A caller who must only be listened to ends turns by commits; that may change while the session runs."""
        if force_listen != self._was_forced:
            self._was_forced, self._auto = force_listen, not force_listen
            self._hearing.settings = replace(self._hearing.settings, ends_turns=self._auto)

    def _act_on(self, mark: Mark | None, now_ms: int) -> None:
        match mark:
            case Mark.STARTED:
                self._floor.report(ModelHeardSpeech(epoch=self._floor.epoch, start_ms=self._hearing.begun_ms))
            case Mark.PAUSED:
                self._guess = self._recognise(self._hearing.so_far())
                self._guess.add_done_callback(self._guessed)
            case Mark.RESUMED:
                self._drop_guess()
            case Mark.ENDED:
                turn = self._hearing.finish(end_ms=now_ms)
                self._thoughts.add(0, functools.partial(self._understand, self._over(turn, may_answer=True)))
        if self._hearing.in_speech and self._hearing.overlap_ms >= self._hearing.settings.barge_in_ms:
            self._cut()

    async def _commit(self, request: EndTurn) -> None:
        turn = self._hearing.finish(committed=True)
        self._vad.reset()
        over = self._over(turn, may_answer=request.respond, item_id=request.item_id, epoch=request.epoch)
        self._thoughts.add(0, functools.partial(self._understand, over))

    def _over(self, turn: Turn, *, may_answer: bool, item_id: str | None = None, epoch: int | None = None) -> Over:
        guess, self._guess = self._guess, None
        if guess is None and len(turn.samples):
            guess = self._recognise(turn.samples)
        epoch = self._floor.epoch if epoch is None else epoch
        return Over(turn, guess, epoch, may_answer, time.monotonic(), item_id)

    def _recognise(self, samples: Floats) -> asyncio.Task[Heard]:
        task = asyncio.create_task(self._parts.understand(samples))
        self._recognising.add(task)
        task.add_done_callback(self._recognising.discard)
        return task

    def _guessed(self, guess: asyncio.Task[Heard]) -> None:
        """A guess is in: words that are more than an acknowledgement cut an answer that is still being given."""
        if guess.cancelled() or guess.exception() is not None or guess is not self._guess:
            return
        if self._hearing.overlap_ms > OVERLAP_IGNORED_MS and _is_objection(guess.result()):
            self._cut()

    def _drop_guess(self) -> None:
        guess, self._guess = self._guess, None
        if guess is not None:
            guess.cancel()

    def _cut(self) -> None:
        if self._cuts_itself and self._floor.answer is not None:
            self._floor.interrupt("barge_in")
            self._hearing.forgive_overlap()
            self._speaking.interrupted(self._floor.epoch, None)

    async def _understand(self, over: Over) -> None:
        turn, (heard, failed) = over.turn, await self._result(over.heard)
        overlapped = turn.is_overlap and over.item_id is None
        backchannel = overlapped and (turn.speech_ms <= OVERLAP_IGNORED_MS or not _is_objection(heard))
        is_turn = bool(heard.text) and not backchannel
        if turn.announced:
            end = ModelHeardSpeechEnd(epoch=self._floor.epoch, end_ms=turn.end_ms, is_turn=is_turn)
            self._floor.report(end)
        if is_turn and turn.is_overlap and _is_objection(heard):
            before = self._floor.epoch
            self._cut()
            # The interruption is this turn's own: its answer belongs to the epoch that it began.
            over = replace(over, epoch=self._floor.epoch) if over.epoch == before else over
        if is_turn or over.item_id is not None:
            self._floor.report(
                ModelHeardTurn(
                    epoch=self._floor.epoch,
                    transcript=heard.text,
                    item_id=over.item_id,
                    audio_ms=turn.audio_ms,
                    failed=failed,
                )
            )
        self._answer(over, heard, is_turn=is_turn, backchannel=backchannel)

    async def _result(self, task: asyncio.Task[Heard] | None) -> tuple[Heard, str | None]:
        """What was recognised; a recogniser that fails is reported, heard nothing, and says why."""
        if task is None:
            return NOTHING, None
        try:
            return await task, None
        except Exception as error:
            log.exception("speech recognition failed")
            message = f"speech recognition failed: {error}"
            self._floor.report(ModelFailed(epoch=self._floor.epoch, code="runtime_append_failed", message=message))
            return NOTHING, message

    def _answer(self, over: Over, heard: Heard, *, is_turn: bool, backchannel: bool) -> None:
        if is_turn:
            self._speaking.remember_heard(heard.text, over.item_id)
        if backchannel:
            return
        if not is_turn:
            self._floor.listen("silence_or_noise")
        elif not over.may_answer:
            self._floor.listen("model_listen")
        elif over.epoch >= self._floor.epoch:
            self._speaking.answer(over.epoch, heard_s=time.monotonic() - over.since_s)


def _is_objection(heard: Heard) -> bool:
    """True for words that ask the speaker to stop; noise and acknowledgements do not."""
    return bool(heard.text) and not is_acknowledgement(heard.text)
