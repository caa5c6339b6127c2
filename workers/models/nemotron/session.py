"""One caller: sound to the engine, its words to the mouth, its calls to the client, and what came of them back."""

from __future__ import annotations

import asyncio
import logging

from msgspec.structs import replace

from duplex_es.model import (
    Emit,
    EndTurn,
    FeedAudio,
    Generate,
    Interrupt,
    ModelFailed,
    ModelListened,
    ModelRemembered,
    OpenModel,
    ReconfigureModel,
    Request,
    Signal,
    ToolOutput,
)
from workers.engine.contract import EngineFacts, Stepped
from workers.engine.process import EngineProcess

from ..stepping.session import SteppingSession, opening_of
from ..stepping.voice import Manner, Voice
from . import record
from .calls import LONGEST_OUTPUT_CHARS, MOST_PENDING, Calls
from .mouth import Mouth
from .speaking import Speaker
from .tools import CallReader, prompt_of

INSTRUCTIONS = "You are a friendly voice assistant. Greet the caller, then listen. Keep your answers short."
"""Who the model is where a session does not say."""
GAP_MS = 400
"""A caller whose sound has been away for this long is taken to be silent: no network is as late."""
ANSWER_FRAMES = 75
"""So long the model is given to answer a turn, a request or an output before the caller is only listened to again."""
LISTEN_FRAMES = 25
"""While the model only listens, it is said to so often: what it remembers is written with what it tells."""
HUSHED_FRAMES = 6
"""What was cut is over when nothing was written for so long."""
LEAD_FRAMES = 2
"""So much of an answer is sent ahead of its time: the network's delay changes, and nobody should hear that."""
FLOAT_BYTES = 4

_log = logging.getLogger(__name__)


class NemotronSession(SteppingSession):
    """Owns one slot of the engine, or waits for one after it was lost; ``talker`` is who speaks, ``None``: text only.

    Frames go on while a tool runs, and while its output is forced into the channel. An interruption cuts what is said
    and what is still being written of it; the model's context stays. While there is something to be said, or to be
    taken in, a caller that sends nothing is silent.
    """

    def __init__(
        self,
        engine: EngineProcess,
        facts: EngineFacts,
        request: OpenModel,
        emit: Emit,
        manner: Manner,
        talker: EngineProcess | None,
    ) -> None:
        frames, standing = record.unpack(request.memory)
        standing = standing or record.Standing(epoch=request.epoch)
        epoch, open_turn = request.epoch, request.open_turn
        voice = Voice(manner, epoch=epoch, open_turn=open_turn, turn=standing.turn, silent=standing.silent)
        super().__init__(engine, facts, replace(request, memory=frames), emit, manner, voice)
        prompt = prompt_of(request.instructions or INSTRUCTIONS, request.tools)
        self._opening = {**opening_of(request), "prompt": prompt}
        name = f"{request.session_id}:{request.incarnation}"
        outputs = {item.call_id: item.text for item in request.history if item.role == "tool" and item.call_id}
        self._calls = Calls(name, standing.calls, outputs)
        self._reader = CallReader(standing.calling)
        self._hushed = standing.hushed
        self._unwritten = 0
        self._silent_frames = 0
        # Nobody would ever say what waits to be said where there is no voice.
        self._mouth = Mouth(standing.mouth if talker is not None else None)
        self._is_heard = open_turn is not None
        self._aloud = talker is not None and "audio" in request.modalities
        self._awaits_frames = ANSWER_FRAMES if self._calls.pending else 0
        self._complaints: list[str] = []
        self._now_s = asyncio.get_running_loop().time
        self._heard_s = self._now_s()
        self._is_filling = False
        self._timer: asyncio.TimerHandle | None = None
        self.speaker: Speaker | None = None
        if talker is not None:
            self.speaker = Speaker(talker, self._mouth, name, request.voice)
        if request.epoch > standing.epoch:
            self._cut()

    async def open(self) -> None:
        """Take a slot and wait until it is prepared. Raises: ModelRefused, EngineLost."""
        try:
            await super().open()
        except BaseException:
            # Whoever opens it may be cancelled meanwhile; nobody else knows of what was begun here.
            self.close()
            raise
        # What the caller said while this was being prepared is still to come.
        self._heard_s = self._now_s()
        self._arm(self._heard_s)

    async def perform(self, request: Request) -> None:
        """Carry out one request; never raises for what a caller said."""
        match request:
            case FeedAudio():
                self._heard_s, self._is_filling = self._now_s(), False
                self._feed(request.pcm[: len(request.pcm) // FLOAT_BYTES * FLOAT_BYTES])
            case Interrupt():
                if request.epoch > self._voice.epoch:
                    self._voice.adopt(request.epoch)
                    self._cut()
            case EndTurn():
                self._voice.adopt(request.epoch)
                if request.respond:
                    self._awaits_frames = ANSWER_FRAMES
            case Generate():
                self._voice.adopt(request.epoch)
                self._voice.ask(request.response_id)
                self._awaits_frames = ANSWER_FRAMES
            case ToolOutput():
                self._voice.adopt(request.epoch)
                self._answer(request.call_id, request.output)
            case ReconfigureModel():
                self._aloud = self.speaker is not None and "audio" in request.modalities
                if self.speaker is not None:
                    self.speaker.voice = request.voice
            case _:
                await super().perform(request)

    def close(self) -> None:
        """Give the slot back; nothing is signalled any more. Idempotent."""
        super().close()
        if self._timer is not None:
            self._timer.cancel()
        if self.speaker is not None:
            self.speaker.close()

    # -- tools -----------------------------------------------------------------------------------------------------

    def _answer(self, call_id: str, output: str) -> None:
        """Let an output wait for its turn. One for no call that is open comes to nothing."""
        if not self._calls.answered(call_id, output):
            return
        if len(output) > LONGEST_OUTPUT_CHARS:
            self._complain(
                f"The output of call {call_id} has {len(output)} characters; the model takes "
                f"{LONGEST_OUTPUT_CHARS} and is told that it was too long."
            )
        if self._calls.pending > MOST_PENDING:
            self._complain(
                f"{MOST_PENDING} tool outputs wait to be said to the model already; that of call {call_id} is kept, "
                "and waits behind them."
            )

    def _inform(self) -> None:
        """Begin with the next batch of outputs, unless the model is in the middle of a call, or of what was cut."""
        if self._reader.is_calling or self._hushed:
            return
        if (batch := self._calls.next_batch()) is not None and self._seat.is_live:
            self._engine.inform(self._seat.name, batch)

    def _begin(self) -> None:
        super()._begin()
        if batch := self._calls.batch():
            self._engine.inform(self._seat.name, batch, told=self._calls.told)

    def _overfull(self, message: str) -> None:
        _log.error("session=%s an output is not taken: %s", self._opening["session_id"], message)
        self._calls.give_up()
        self._complain(f"A tool's output cannot be said to the model: {message}.")

    def _complain(self, message: str) -> None:
        """Tell the client, as soon as that ends no answer, given or awaited."""
        self._complaints.append(message)
        self._tell_complaints()

    def _tell_complaints(self) -> None:
        if self._voice.is_open or self._voice.asked or self._awaits_frames:
            return
        for message in self._complaints:
            self._emit(ModelFailed(epoch=self._voice.epoch, code="resource_exhausted", message=message))
        self._complaints.clear()

    def _read(self, stepped: Stepped) -> None:
        """What the function channel gave in a frame."""
        if stepped.forced:
            if self._calls.forced(stepped.function):
                # What comes now is about the output, whatever was cut before.
                self._awaits_frames, self._hushed = ANSWER_FRAMES, 0
        elif calls := self._reader.feed(stepped.function):
            self._calls.made(calls)

    # -- speech ----------------------------------------------------------------------------------------------------

    def _cut(self) -> None:
        """Say nothing more of the answer, nor of what is still being written of it."""
        self._hushed = max(0, HUSHED_FRAMES - self._unwritten)
        self._awaits_frames = 0
        self._is_heard = False
        self._mouth.drop()
        if self.speaker is not None:
            self.speaker.hush()

    def _words(self, stepped: Stepped) -> str:
        """What was written in a frame, but for what an interruption has cut."""
        if stepped.forced:
            return "" if self._hushed else stepped.text
        is_written = bool(stepped.speaks or stepped.text)
        self._unwritten = 0 if is_written else self._unwritten + 1
        if not self._hushed:
            return stepped.text
        self._hushed = HUSHED_FRAMES if is_written else self._hushed - 1
        return ""

    def _said(self, text: str) -> tuple[bytes, str, bool]:
        """The sound of a frame, the words that begin in it, and whether there is anything to say."""
        if not (self._aloud or self._mouth.is_busy) or self.speaker is None:
            return b"", text, bool(text)
        self._mouth.hear(text)
        if self._mouth.next_clause() is not None:
            self.speaker.wake()
        is_busy = self._mouth.is_busy
        frames = 1 if self._is_heard else 1 + LEAD_FRAMES
        pcm, words = self._mouth.take(frames * self._facts.samples_out * 2)
        self._is_heard = self._is_heard or bool(pcm)
        return pcm, words, is_busy

    # -- frames ----------------------------------------------------------------------------------------------------

    def _take(self, stepped: Stepped) -> None:
        """Signal what one frame gave. A call comes next to what is remembered: both are saved, or neither is."""
        self._keep(stepped.memory)
        self._read(stepped)
        self._inform()
        call = self._calls.next_untold()
        signals: list[Signal] = [] if call is None else [self._voice.call(*call)]
        pcm, words, speaks = self._said(self._words(stepped))
        # The model is silent while something is forced into the channel: its answer is not over for that.
        speaks = speaks or (stepped.forced and self._voice.is_open)
        was_open = self._voice.is_open
        signals += self._voice.take(pcm, words, speaks=speaks)
        if was_open and not self._voice.is_open:
            self._mouth.over()
            self._is_heard = False
        signals += self._listened(has_called=call is not None)
        self._emit(ModelRemembered(epoch=self._voice.epoch, data=record.pack(stepped.memory, self._standing())))
        for signal in signals:
            self._emit(signal)
        self._tell_complaints()

    def _listened(self, *, has_called: bool) -> list[Signal]:
        """The signal of a model that listens: when its time to answer is up, and now and then after that."""
        awaited = self._awaits_frames
        self._awaits_frames = 0 if self._voice.is_open or has_called else max(0, awaited - 1)
        if self._voice.is_open or self._awaits_frames:
            self._silent_frames = 0
            return []
        self._silent_frames += 1
        if not awaited and self._silent_frames < LISTEN_FRAMES:
            return []
        asked, self._silent_frames = self._voice.asked, 0
        self._voice.ask(None)
        return [ModelListened(epoch=self._voice.epoch, response_id=asked)]

    def _standing(self) -> record.Standing:
        return record.Standing(
            epoch=self._voice.epoch,
            turn=self._voice.turn,
            silent=self._voice.silent,
            hushed=self._hushed,
            calling=self._reader.calling,
            calls=self._calls.standing(),
            mouth=self._mouth.standing(),
        )

    # -- a caller that sends nothing -------------------------------------------------------------------------------

    def _arm(self, due_s: float) -> None:
        loop = asyncio.get_running_loop()
        delay_s = max(0.0, due_s - self._now_s())
        self._timer = loop.call_later(delay_s, self._fill, due_s)

    def _fill(self, due_s: float) -> None:
        """A frame of silence where the caller's is missing and something is to come of it."""
        if not self.is_open:
            return
        frame_s = self._facts.frame_ms / 1000
        if self._is_filling or self._now_s() - self._heard_s > GAP_MS / 1000:
            self._is_filling = self._needs_frames
            if self._is_filling and self._seat.is_live:
                self._engine.feed(self._seat.name, bytes(self._facts.samples_in * FLOAT_BYTES))
        self._arm(max(due_s + frame_s, self._now_s()))

    @property
    def _needs_frames(self) -> bool:
        return bool(
            self._voice.is_open
            or self._awaits_frames
            or self._calls.pending
            or self._reader.is_calling
            or self._mouth.is_busy
        )
