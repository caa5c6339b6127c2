"""One answer on its way from a chat server to the session."""

from __future__ import annotations

import time

from duplex_es.model import HistoryItem, ModelPassedOn, StageMetrics

from ..floor import Answer, Floor
from ..pcm import int16_bytes, samples_in
from ..speech.sentences import split_sentences, take_sentences
from ..speech.words import spread
from ..stages import SOUND, WORDS, Pieces, sounding
from .answering import Called, Other, Part, Spoken, Used, Written
from .options import ChatOptions
from .senses import RATE_HZ, Senses
from .sound import SoundReader

PIECE_MS = 200


class Telling:
    """One answer on its way from the server to the session."""

    def __init__(self, answer: Answer, floor: Floor, options: ChatOptions, senses: Senses, *, aloud: bool) -> None:
        """``aloud``: audio is wanted. Where the voice is here, the server's own audio is left out."""
        self._answer = answer
        self._aloud = aloud
        self._floor = floor
        self._senses = senses
        self._unsaid = ""
        self.has_begun = False
        self._sound = SoundReader(assumed_rate_hz=None if options.audio_metadata else options.output_rate_hz)
        self._untold = ""
        self._used = Used(None, None)
        self._calls: list[Called] = []
        self._pieces = Pieces()
        self._samples = self._sounds = 0

    async def tell(self, part: Part) -> None:
        """Signal one part. Raises: SoundUnusable, AnswerCut."""
        self.has_begun = True
        if isinstance(part, Written) or (isinstance(part, Spoken) and part.transcript):
            self._pieces.came()
        match part:
            case Written(text=text) if self._aloud and self._senses.speaks:
                sentences, self._unsaid = take_sentences(self._unsaid + text)
                await self._pronounce(sentences)
            case Spoken() if self._aloud and self._senses.speaks:
                sentences, self._unsaid = take_sentences(self._unsaid + part.transcript)
                await self._pronounce(sentences)
            case Written(text=text):
                self._answer.write(text)
            case Spoken() if not self._aloud:
                if part.transcript:
                    self._answer.write(part.transcript)
            case Spoken():
                self._untold += part.transcript
                await self._say(self._sound.read(part.data, part.metadata))
            case Called():
                self._calls.append(part)
                self._answer.call(part.call_id, part.name, part.arguments)
            case Used():
                self._used = part
            case Other(message=message) if self._answer.is_open:
                self._floor.report(ModelPassedOn(epoch=self._answer.epoch, turn=self._answer.turn, message=message))

    async def _say(self, pcm: bytes) -> None:
        rate_hz = self._sound.rate_hz
        if not pcm or rate_hz is None:
            return
        self._samples, self._sounds = self._samples + len(pcm) // 2, self._sounds + 1
        step = samples_in(PIECE_MS, rate_hz) * 2
        for at in range(0, len(pcm), step):
            text, self._untold = self._untold, ""
            await self._answer.say(pcm[at : at + step], text, rate_hz=rate_hz)

    async def _pronounce(self, sentences: list[str]) -> None:
        """Say sentences with the voice that is here; what has no sound is written."""
        for sentence in sentences:
            began_s = time.monotonic()
            samples = await self._senses.pronounce(sentence)
            if len(samples):
                self._answer.measure({SOUND: sounding(len(samples), RATE_HZ, work_s=time.monotonic() - began_s)})
            pieces = spread(sentence, samples, samples_in(PIECE_MS, RATE_HZ))
            if not pieces:
                self._answer.write(sentence)
            for piece, words in pieces:
                await self._answer.say(int16_bytes(piece), words)

    async def finish(self) -> None:
        """The stream ended, and nothing went wrong."""
        unsaid, self._unsaid = self._unsaid, ""
        await self._pronounce(split_sentences(unsaid))
        if self._untold:
            self._answer.write(self._untold)
        used = self._used
        self._answer.measure(self._stages(used))
        self._answer.finish(input_tokens=used.read, output_tokens=used.written, cached_tokens=used.cached)

    def _stages(self, used: Used) -> dict[str, StageMetrics]:
        """What the server's stream shows of it. Sound is taken at its own pace: then words come when they are due."""
        is_spoken = self._sounds > 0 or (self._aloud and self._senses.speaks)
        stages = {WORDS: self._pieces.words(used.read, used.written, at_once=not is_spoken)}
        if self._sounds and self._sound.rate_hz:
            stages[SOUND] = sounding(self._samples, self._sound.rate_hz, pieces=self._sounds)
        return stages

    def said(self) -> list[HistoryItem]:
        """What the session remembers of it, however it ended."""
        name = f"chat_{self._answer.turn}"
        words = HistoryItem(item_id=name, role="assistant", text=self._answer.text)
        calls = [
            HistoryItem(item_id=name, role="assistant", text=call.arguments, call_id=call.call_id, name=call.name)
            for call in self._calls
        ]
        return [words, *calls]
