"""One caller of the echo model: listens by loudness, repeats an utterance once it is over.

All hearing happens inside ``perform``: loudness costs microseconds. Only speaking runs in the background.
"""

from __future__ import annotations

import functools
import re
import zlib
from collections import deque
from dataclasses import dataclass

from duplex_es.model import (
    CloseModel,
    ContinueAnswer,
    Emit,
    EndTurn,
    FeedAudio,
    Generate,
    Interrupt,
    ModelHeardSpeech,
    ModelHeardSpeechEnd,
    ModelHeardTurn,
    OpenModel,
    Recipe,
    ReconfigureModel,
    Request,
    ResetInput,
    Sound,
    ToolOutput,
)
from workers.vad.endpoint import EndpointSettings, EndpointState, Mark, advance
from workers.vad.energy import is_speech

from ..agenda import Agenda
from ..floor import DEFAULT_LEAD_MS, Floor
from ..pcm import floats_of, int16_bytes, ms_in, samples_in, tone

RATE_HZ = 24_000
FRAME_MS = 20
BYTES = 4  # of one incoming float32 sample
FRAME_BYTES = samples_in(FRAME_MS, RATE_HZ) * BYTES
PREFIX_BYTES = samples_in(200, RATE_HZ) * BYTES
WORD_MS = 200


@dataclass(frozen=True, slots=True)
class EchoOptions:
    """``lead_ms`` is how far audio runs ahead of real time (``none``: as fast as possible).

    ``silence_rms`` is the loudness that counts as speech, ``silence_ms`` the silence that ends a turn.
    """

    lead_ms: int | None = DEFAULT_LEAD_MS
    chunk_ms: int = 160
    silence_ms: int = 500
    silence_rms: float = 0.003


def words_of(text: str) -> list[str]:
    """The pieces an echoed text comes in; joined they are the text."""
    return re.findall(r"\s*\S+\s*", text) or ([text] if text else [])


def pitch_of(word: str) -> float:
    """The tone a word sounds as, in Hz, 200 to 800: the same word, the same tone, whatever its case."""
    return 200.0 + zlib.crc32(word.strip().lower().encode()) % 601


class EchoSession:
    """Repeats what one caller says. With ``auto_response: false`` in ``extra_body`` only a commit ends a turn."""

    def __init__(self, request: OpenModel, emit: Emit, options: EchoOptions) -> None:
        self._options = options
        self._floor = Floor(emit, output_rate_hz=RATE_HZ, lead_ms=options.lead_ms)
        self._floor.adopt(request.epoch)
        self._answers = Agenda(self._floor, f"echo {request.session_id}")
        self._ends_turns = request.extra_body.get("auto_response", True) is not False
        self._cuts_itself = request.overlap_policy == "barge_in_on_speech"
        self._was_forced = False
        self._clock_ms = 0
        self._forget_input()
        self._configure(request.turn_detection)

    async def perform(self, request: Request) -> None:
        """Carry out one request; never raises for what a caller said."""
        match request:
            case FeedAudio():
                self._hear(request)
            case EndTurn():
                self._end_turn(request)
            case Generate():
                self._floor.adopt(request.epoch)
                said = next((item.text for item in reversed(request.history) if item.role == "user"), "")
                self._answer_text(said, request.response_id, "audio" in request.modalities)
            case ContinueAnswer():
                self._floor.adopt(request.epoch)
                self._continue(request)
            case ToolOutput():
                self._floor.adopt(request.epoch)
                if request.respond:
                    self._answer_text(request.output, None, True)
            case Interrupt():
                self._floor.stop(request.epoch)
                self._answers.drop(request.epoch)
            case ResetInput():
                self._floor.adopt(request.epoch)
                self._forget_input()
            case ReconfigureModel():
                self._cuts_itself = request.overlap_policy == "barge_in_on_speech"
                self._configure(request.turn_detection)
            case CloseModel():
                self._floor.close()
                await self._answers.close()

    def _configure(self, turn_detection: dict[str, object] | None) -> None:
        silence = (turn_detection or {}).get("silence_duration_ms")
        silence_ms = int(silence) if isinstance(silence, int | float) else self._options.silence_ms
        self._settings = EndpointSettings(frame_ms=FRAME_MS, min_speech_ms=60, silence_ms=silence_ms)

    def _forget_input(self) -> None:
        self._turn = bytearray()
        self._pieces: deque[tuple[int, str]] = deque()
        self._forgotten_bytes = 0
        self._judged_bytes = 0
        self._heard_loud = False
        self._endpoint = EndpointState()

    def _hear(self, request: FeedAudio) -> None:
        self._floor.adopt(request.epoch)
        self._clock_ms = request.end_ms
        if request.force_listen != self._was_forced:
            # A caller who must only be listened to ends turns by commits.
            self._was_forced, self._ends_turns = request.force_listen, not request.force_listen
        self._pieces.append((self._forgotten_bytes + len(self._turn), request.place))
        self._turn += request.pcm[: len(request.pcm) - len(request.pcm) % BYTES]
        while len(self._turn) - self._judged_bytes >= FRAME_BYTES:
            frame = floats_of(bytes(self._turn[self._judged_bytes : self._judged_bytes + FRAME_BYTES]))
            self._judged_bytes += FRAME_BYTES
            loud = request.is_speech is not False and is_speech(frame, self._options.silence_rms)
            self._heard_loud = self._heard_loud or loud
            self._endpoint, mark = advance(self._endpoint, 1.0 if loud else 0.0, self._settings)
            self._act_on(mark)
        self._forget_idle()

    def _forget_idle(self) -> None:
        waits_for_speech = not self._endpoint.in_speech and not self._endpoint.run_frames
        surplus = self._judged_bytes - PREFIX_BYTES
        if self._ends_turns and waits_for_speech and surplus > 0:
            self._forget(surplus)
            self._judged_bytes = PREFIX_BYTES
            self._heard_loud = False

    def _forget(self, size: int) -> None:
        """Drop the first ``size`` bytes of the turn, and the names of the pieces that lie in them."""
        del self._turn[:size]
        self._forgotten_bytes += size
        while len(self._pieces) > 1 and self._pieces[1][0] <= self._forgotten_bytes:
            self._pieces.popleft()

    def _recipe(self, said: bytearray) -> Recipe:
        """How to say again what the turn begins with."""
        if not self._pieces:
            return Recipe()
        at, first = self._pieces[0]
        end = self._forgotten_bytes + len(said)
        last = next(place for start, place in reversed(self._pieces) if start < end or start == at)
        offset = (self._forgotten_bytes - at) // BYTES
        return Recipe(sound=Sound(first=first, offset=offset, samples=len(said) // BYTES, last=last))

    def _act_on(self, mark: Mark | None) -> None:
        now_ms = self._clock_ms - ms_in((len(self._turn) - self._judged_bytes) // BYTES, RATE_HZ)
        if mark is Mark.STARTED:
            spoken_ms = (self._endpoint.frames - self._endpoint.start_frame) * FRAME_MS
            self._floor.report(ModelHeardSpeech(epoch=self._floor.epoch, start_ms=max(0, now_ms - spoken_ms)))
            if self._cuts_itself and self._floor.answer is not None:
                self._floor.interrupt("barge_in")
                self._answers.drop(self._floor.epoch)
        elif mark is Mark.ENDED:
            self._floor.report(ModelHeardSpeechEnd(epoch=self._floor.epoch, end_ms=now_ms))
            if self._ends_turns:
                said = self._turn[: self._judged_bytes]
                recipe = self._recipe(said)
                self._forget(self._judged_bytes)
                self._judged_bytes, self._heard_loud = 0, False
                self._floor.report(self._heard(said))
                self._answer_sound(said, recipe)

    def _end_turn(self, request: EndTurn) -> None:
        self._floor.adopt(request.epoch)
        said, spoke, recipe = self._turn, self._heard_loud, self._recipe(self._turn)
        if self._endpoint.in_speech:
            self._floor.report(ModelHeardSpeechEnd(epoch=self._floor.epoch, end_ms=self._clock_ms))
        self._forget_input()
        self._floor.report(self._heard(said, request.item_id))
        if not spoke:
            self._floor.listen("silence_or_noise")
        elif not request.respond:
            self._floor.listen("model_listen")
        else:
            self._answer_sound(said, recipe)

    def _heard(self, said: bytearray, item_id: str | None = None) -> ModelHeardTurn:
        return ModelHeardTurn(
            epoch=self._floor.epoch, transcript="", item_id=item_id, audio_ms=ms_in(len(said) // BYTES, RATE_HZ)
        )

    def _answer_sound(self, said: bytes | bytearray, recipe: Recipe, again: ContinueAnswer | None = None) -> None:
        pcm = int16_bytes(floats_of(bytes(said)))
        self._answers.add(self._floor.epoch, functools.partial(self._repeat_sound, pcm, recipe, again))

    def _answer_text(
        self, said: str, response_id: str | None, aloud: bool, again: ContinueAnswer | None = None
    ) -> None:
        work = functools.partial(self._repeat_text, said, response_id, aloud, again)
        self._answers.add(self._floor.epoch, work)

    def _continue(self, request: ContinueAnswer) -> None:
        match request.recipe.notes:
            case {"said": str(said), "aloud": bool(aloud)}:
                self._answer_text(said, request.response_id, aloud, request)
            case _:
                self._answer_sound(request.sound, request.recipe, request)

    async def _repeat_sound(self, pcm: bytes, recipe: Recipe, again: ContinueAnswer | None) -> None:
        answer = self._floor.begin(recipe=recipe, again=again)
        step = samples_in(self._options.chunk_ms, RATE_HZ) * 2
        for at in range(0, len(pcm), step):
            await answer.say(pcm[at : at + step])
        answer.finish()

    async def _repeat_text(self, said: str, response_id: str | None, aloud: bool, again: ContinueAnswer | None) -> None:
        recipe = Recipe(notes={"said": said, "aloud": aloud})
        answer = self._floor.begin(response_id, recipe=recipe, again=again)
        for word in words_of(said):
            if aloud:
                piece = tone(answer.samples, samples_in(WORD_MS, RATE_HZ), pitch_of(word), RATE_HZ)
                await answer.say(piece, word)
            else:
                answer.write(word)
        answer.finish()
