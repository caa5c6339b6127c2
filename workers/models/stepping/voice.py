"""Frames to answers: where one begins, where it ends, what is said in it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from duplex_es.model import (
    ModelCalledFunction,
    ModelFinished,
    ModelListened,
    ModelProducedAudio,
    ModelProducedText,
    ModelSpoke,
    Signal,
)


@dataclass(frozen=True, slots=True)
class Manner:
    """How a model takes turns. ``silent_frames`` without words or sound end an answer; ``None``: it never ends.

    ``announces``: each frame in which the model only listens is told as a decision of its own. ``silenced`` takes the
    memory of a session and a number of frames, and gives the memory of one whose model said nothing in the last of
    them; without it an interruption costs the model its context.
    """

    silent_frames: int | None = None
    announces: bool = False
    silenced: Callable[[bytes, int], bytes] | None = None


class Voice:
    """One session's answers. ``open_turn`` is the turn of an answer that goes on from another process.

    An endless model is in one answer from its first sound on; another's answer begins with the first frame in which it
    speaks, with sound or before, and ends once it has been silent for long enough. Sound between answers is not passed
    on; words that come without any are text. ``turn`` and ``silent`` are where that process stood, if it told.
    """

    def __init__(
        self, manner: Manner, *, epoch: int, open_turn: int | None = None, turn: int = 0, silent: int = 0
    ) -> None:
        self._manner = manner
        self._epoch = epoch
        self._turn = turn if open_turn is None else open_turn
        self._is_open = open_turn is not None
        self._silent = silent
        self._asked: str | None = None

    @property
    def epoch(self) -> int:
        """What signals carry now."""
        return self._epoch

    @property
    def turn(self) -> int:
        """The number of the answer that is open, else of the next one."""
        return self._turn

    @property
    def silent(self) -> int:
        """For how many frames the open answer has been silent."""
        return self._silent

    @property
    def is_open(self) -> bool:
        """Whether an answer is being given."""
        return self._is_open

    @property
    def asked(self) -> str | None:
        """The response that was asked for and is not begun."""
        return self._asked

    def ask(self, response_id: str | None) -> None:
        """The next answer is the one to this request; ``None`` takes it back."""
        self._asked = response_id

    def call(self, call_id: str | None, name: str | None, arguments: str) -> ModelCalledFunction:
        """The signal of a tool call: inside the open answer, or a turn of its own."""
        turn = self._turn
        self._turn += not self._is_open
        return ModelCalledFunction(epoch=self._epoch, turn=turn, call_id=call_id, name=name, arguments=arguments)

    def adopt(self, epoch: int) -> None:
        """Take the epoch of a request; it never goes down. An answer of an older one is over, silently."""
        if epoch > self._epoch:
            self._epoch = epoch
            self._asked = None
            self._end()

    def take(self, pcm: bytes, text: str, *, speaks: bool) -> Iterator[Signal]:
        """The signals of the next frame, in order."""
        if not self._is_open:
            if not (pcm if self._manner.silent_frames is None else speaks):
                if self._manner.announces:
                    yield ModelListened(epoch=self._epoch)
                return
            self._is_open, asked, self._asked = True, self._asked, None
            yield ModelSpoke(epoch=self._epoch, turn=self._turn, response_id=asked)
        if pcm:
            yield ModelProducedAudio(epoch=self._epoch, turn=self._turn, pcm=pcm, text=text)
        elif text:
            yield ModelProducedText(epoch=self._epoch, turn=self._turn, text=text)
        self._silent = 0 if speaks else self._silent + 1
        if self._manner.silent_frames is not None and self._silent >= self._manner.silent_frames:
            yield self._finished()

    def finish(self) -> Iterator[Signal]:
        """End the answer that is open, as complete."""
        if self._is_open:
            yield self._finished()

    def _finished(self) -> ModelFinished:
        turn = self._turn
        self._end()
        return ModelFinished(epoch=self._epoch, turn=turn)

    def _end(self) -> None:
        self._turn += self._is_open
        self._is_open, self._silent = False, 0
